"""Linear attention against its definition with materialised weights; its normaliser; its transforms."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from separatrix import SeparatrixError, linear_attention
from separatrix.attention import reference
from separatrix.attention.features import FEATURE_MAPS, random_positive
from separatrix.attention.linear import refuse_vanishing
from tests.pairwise import pairwise

DRAWN = random_positive(3, 7, torch.Generator().manual_seed(3))
MAPS = {**FEATURE_MAPS, "random_positive": DRAWN, "squared": torch.square}
GIVEN = {name: name for name in FEATURE_MAPS} | {"random_positive": DRAWN, "squared": torch.square}


def plain(q: Tensor, k: Tensor, v: Tensor, phi: Callable[[Tensor], Tensor], is_causal: bool = False) -> Tensor:
    u = phi(q) @ phi(k).mT
    if is_causal:
        u = u.tril()
    return (u / u.sum(-1, keepdim=True)) @ v


def draw(*shapes: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Positive entries, so that the normaliser of every map is far from zero."""
    generator = torch.Generator().manual_seed(seed)
    return [0.1 + torch.rand(shape, generator=generator, dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 3), (1, 3), (1, 1)],
        [(5, 3), (70, 3), (70, 2)],
        [(40, 3), (7, 3), (7, 5)],
        [(2, 3, 6, 3), (2, 3, 9, 3), (2, 3, 9, 4)],
        [(4, 1, 6, 3), (2, 9, 3), (1, 9, 4)],
        [(6, 3), (2, 9, 3), (5, 1, 9, 4)],
        [(0, 5, 3), (0, 4, 3), (0, 4, 2)],
        [(2, 6, 3), (2, 9, 3), (2, 9, 0)],
    ],
    ids=str,
)
def test_equals_the_definition(name, shapes):
    q, k, v = draw(*shapes)
    torch.testing.assert_close(
        linear_attention(q, k, v, feature_map=GIVEN[name]), plain(q, k, v, MAPS[name]), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(
    ("name", "length", "batches"),
    pairwise(MAPS, [1, 2, 15, 16, 17, 63, 100], [((), (), ()), ((2,), (3, 1), (1, 2)), ((1,), (4,), ())]),
)
def test_causal_equals_the_definition(name, length, batches):
    q, k, v = draw(*((*batch, length, width) for batch, width in zip(batches, (3, 3, 5), strict=True)))
    torch.testing.assert_close(
        linear_attention(q, k, v, feature_map=GIVEN[name], is_causal=True),
        plain(q, k, v, MAPS[name], is_causal=True),
        rtol=1e-10,
        atol=1e-10,
    )


def test_causal_with_chunks_of_every_size_up_to_a_wide_one():
    for d, d_v, length in [(1, 1, 33), (20, 40, 65), (64, 64, 200), (130, 200, 300)]:
        q, k, v = draw((length, d), (length, d), (length, d_v))
        torch.testing.assert_close(
            linear_attention(q, k, v, is_causal=True), plain(q, k, v, lambda x: x, True), rtol=1e-10, atol=1e-10
        )


def test_the_identity_is_the_papers_lin():
    q, k, v = draw((2, 6, 4), (2, 9, 4), (2, 9, 3))
    torch.testing.assert_close(linear_attention(q, k, v), reference.linear_attention(q, k, v), rtol=1e-12, atol=1e-12)
    A, x = draw(
        (9, 4), (1, 4)
    )  # the values are a basis, so that the output is the weights f_lin(A, x) of Definition 3.2
    torch.testing.assert_close(linear_attention(x, A, torch.eye(9, dtype=A.dtype))[0], A @ x[0] / (A @ x[0]).sum())


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(MAPS)), st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**31))
def test_properties(name, length, value_dim, seed):
    q, k, v = draw((2, length, 3), (2, length, 3), (2, length, value_dim), seed=seed)
    full = linear_attention(q, k, v, feature_map=GIVEN[name])
    ones = linear_attention(q, k, torch.ones_like(v), feature_map=GIVEN[name])
    torch.testing.assert_close(ones, torch.ones_like(v), rtol=1e-11, atol=1e-11)
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    shuffled = linear_attention(q, k[:, order], v[:, order], feature_map=GIVEN[name])
    torch.testing.assert_close(shuffled, full, rtol=1e-11, atol=1e-11)
    causal = linear_attention(q, k, v, feature_map=GIVEN[name], is_causal=True)
    stop = 1 + seed % length
    prefix = linear_attention(q[:, stop - 1 : stop], k[:, :stop], v[:, :stop], feature_map=GIVEN[name])
    torch.testing.assert_close(causal[:, stop - 1 : stop], prefix, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients(name, is_causal):
    q, k, v = (x.requires_grad_() for x in draw((2, 1, 18, 3), (3, 18, 3), (1, 18, 2)))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return linear_attention(q, k, v, feature_map=GIVEN[name], is_causal=is_causal)

    assert torch.autograd.gradcheck(run, (q, k, v), fast_mode=True)
    assert torch.autograd.gradgradcheck(run, (q, k, v), fast_mode=True)
    ours = torch.autograd.grad(run(q, k, v).square().sum(), (q, k, v))
    plainly = torch.autograd.grad(plain(q, k, v, MAPS[name], is_causal).square().sum(), (q, k, v))
    torch.testing.assert_close(ours, plainly, rtol=1e-9, atol=1e-9)


class _Largest(TorchDispatchMode):
    """The largest tensor that any operation creates, forward or backward."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            self.elements = max(self.elements, out.untyped_storage().nbytes() // out.element_size())
        return out


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_memory_is_not_quadratic_in_the_length(name, is_causal):
    def largest(length: int) -> int:
        q, k, v = (x.requires_grad_() for x in draw(*[(length, 8)] * 3))
        with _Largest() as watch:
            linear_attention(q, k, v, feature_map=name, is_causal=is_causal).sum().backward()
        return watch.elements

    assert largest(4096) == 2 * largest(2048)


@pytest.mark.parametrize("is_causal", [False, True])
def test_nothing_to_attend(is_causal):
    q, k, v = (x.requires_grad_() for x in draw((2, 0 if is_causal else 3, 4), (2, 0, 4), (2, 0, 5)))
    out = linear_attention(q, k, v, feature_map="taylor2", is_causal=is_causal)
    assert out.shape == (2, q.shape[1], 5)
    assert not out.any()
    out.sum().backward()
    assert not q.grad.any()


def test_no_queries_and_no_keys_with_random_features():
    q, k, v = draw((0, 3), (6, 3), (6, 2))
    assert linear_attention(q, k, v, feature_map=DRAWN).shape == (0, 2)
    assert not linear_attention(k, q, v[:0], feature_map=DRAWN).any()


def test_the_error_says_where():
    q, k, v = draw((2, 3, 5, 2), (2, 3, 4, 2), (2, 3, 4, 1))
    q[1, 2, 3:] = 0
    with pytest.raises(SeparatrixError, match=r"query position 3 at batch index \(1, 2\) vanishes.* 2 queries in all"):
        linear_attention(q, k, v)
    k = torch.tensor([[1.0], [1.0], [-2.0], [1.0]])
    with pytest.raises(SeparatrixError, match=r"query position 2 vanishes: its terms sum to 0, their magnitudes to 8"):
        linear_attention(k, k, k, is_causal=True)
    with pytest.raises(SeparatrixError, match="query position 1 vanishes"):
        linear_attention(torch.tensor([[1.0], [-1.0]]), k, k, feature_map="relu")


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float32, 2.0**-24), (torch.float64, 2.0**-53)])
def test_the_threshold_of_vanishing(dtype, unit):
    ones = torch.ones(1, 1, dtype=dtype)

    def run(gap: float) -> Tensor:  # alpha = gap, with magnitudes adding up to 2 - gap
        keys = torch.tensor([[1.0], [-1.0 + gap]], dtype=dtype)
        return linear_attention(ones, keys, keys)

    with pytest.raises(SeparatrixError, match="vanishes"):
        run(unit)
    # In float64 the sum has no wider dtype than its terms: n = 3 roundings are added to the one.
    assert run(2 * unit if dtype == torch.float32 else 10 * unit).isfinite().all()
    if dtype == torch.float64:
        with pytest.raises(SeparatrixError, match="vanishes"):
            run(7 * unit)


def test_a_normaliser_lost_in_underflow_is_refused():
    tiny = torch.full((1, 1), 1e-30, dtype=torch.float32)
    with pytest.raises(SeparatrixError, match="vanishes"):
        linear_attention(tiny, tiny, tiny)
    assert linear_attention(tiny, tiny / tiny, tiny).item() == pytest.approx(1e-30)


def test_features_of_one_sign_are_never_refused_for_being_small():
    x = torch.full((300, 4), -30.0, dtype=torch.float32)  # elu(x) + 1 is 1e-13
    v = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(linear_attention(x, x, v, feature_map="elu"), v.mean(0).expand_as(v))


def test_the_worst_case_in_float32_would_refuse_good_queries():
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(1000, 64, generator=generator) for _ in range(3))
    out = linear_attention(q, k, v)
    terms = q.double() @ k.double().mT
    alpha, magnitude = terms.sum(-1), q.double().abs() @ k.double().abs().sum(-2)
    refused = alpha.abs() <= 1064 * 2**-24 * magnitude
    assert refused.sum() > 5
    error = (out - plain(q.double(), k.double(), v.double(), lambda x: x)).abs().amax(-1)
    assert (error <= 1e-6 * v.abs().max() * magnitude / alpha.abs()).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_half_types_are_computed_in_float32(dtype, name, is_causal):
    q, k, v = (x.to(dtype) for x in draw(*[(50, 3)] * 3))
    out = linear_attention(q, k, v, feature_map=GIVEN[name], is_causal=is_causal)
    single = linear_attention(q.float(), k.float(), v.float(), feature_map=GIVEN[name], is_causal=is_causal)
    assert out.dtype == dtype
    assert torch.equal(out, single.to(dtype))


def test_half_types_do_not_overflow_inside_nor_under_autocast():
    big = torch.full((3, 4), 300.0, dtype=torch.float16)  # q . k = 360000 > 65504
    assert torch.equal(linear_attention(big, big, big), big)
    q, k, v = draw(*[(20, 4)] * 3, dtype=torch.float32)
    outside = linear_attention(q, k, v)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(linear_attention(q, k, v), outside)


def test_nonfinite_input_becomes_nan():
    q, k, v = draw((2, 3), (4, 3), (4, 2))
    q[0, 0] = math.nan
    out = linear_attention(q, k, v)
    assert out[0].isnan().all()
    assert out[1].isfinite().all()
    k[0, 0] = math.inf
    assert linear_attention(q[1:], k, v).isnan().all()
    huge = torch.tensor([[1e30], [-1e30]])  # the magnitudes overflow float32, the sum is an exact zero
    with pytest.raises(SeparatrixError, match="sum to 0, their magnitudes to inf"):
        linear_attention(huge, huge, huge)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # forward mode's own
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", ["identity", "taylor2", "random_positive"])
def test_transforms(name, is_causal):
    q, k, v = draw((3, 4, 20, 3), (3, 4, 20, 3), (3, 4, 20, 2))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return linear_attention(q, k, v, feature_map=GIVEN[name], is_causal=is_causal)

    out = run(q, k, v)
    torch.testing.assert_close(torch.vmap(run)(q, k, v), out)
    torch.testing.assert_close(torch.vmap(torch.vmap(run))(q, k, v), out)
    torch.testing.assert_close(
        torch.vmap(run, in_dims=(1, None, None))(q, k[:, 0], v[:, 0])[1], run(q[:, 1], k[:, 0], v[:, 0])
    )
    torch.testing.assert_close(
        torch.vmap(run, in_dims=(None, None, -3))(q[:, 0], k[:, 0], v)[1], run(q[:, 0], k[:, 0], v[:, 1])
    )
    with torch.no_grad():
        assert torch.equal(run(q, k, v), out)
    with torch.inference_mode():
        assert torch.equal(run(q, k, v), out)
    assert run(q.to("meta"), k.to("meta"), v.to("meta")).shape == out.shape

    wanted = torch.autograd.grad(run(q.requires_grad_(), k, v).square().sum(), q)[0]
    q = q.detach()

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return run(q, k, v).square().sum()

    torch.testing.assert_close(torch.func.grad(loss)(q, k, v), wanted)
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(q, k, v), wanted)
    tangent = torch.ones_like(q)
    slope = torch.func.jvp(lambda q: loss(q, k, v), (q,), (tangent,))[1]
    torch.testing.assert_close(slope, (wanted * tangent).sum())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize(("backend", "is_causal"), [("aot_eager", False), ("aot_eager", True), ("inductor", True)])
def test_compiled(backend, is_causal):
    q, k, v = draw((2, 20, 3), (2, 20, 3), (2, 20, 2))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return linear_attention(q, k, v, feature_map="taylor2", is_causal=is_causal)

    compiled = torch.compile(run, backend=backend, fullgraph=True)
    inputs = tuple(x.requires_grad_() for x in (q, k, v))
    torch.testing.assert_close(compiled(*inputs), run(*inputs), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(*inputs).square().sum(), inputs),
        torch.autograd.grad(run(*inputs).square().sum(), inputs),
        rtol=1e-10,
        atol=1e-10,
    )


def test_the_check_survives_every_transform():
    q, k, v = draw((2, 5, 2), (2, 4, 2), (2, 4, 1))
    q[1, 3] = 0
    where = r"query position 3 at batch index \(1,\) vanishes"
    for run in (
        linear_attention,
        torch.vmap(linear_attention),
        torch.func.grad(lambda q, k, v: linear_attention(q, k, v).sum()),
        torch.compile(linear_attention, backend="aot_eager", fullgraph=True),
    ):
        with pytest.raises(SeparatrixError, match=where):
            run(q, k, v)
    with pytest.raises(SeparatrixError, match=where):
        torch.vmap(lambda q: linear_attention(q, k[0], v[0]), in_dims=1)(q.movedim(0, 1))


def test_the_operator_of_the_check_is_well_registered():
    a, b = draw((2, 3), (2, 3))
    torch.library.opcheck(refuse_vanishing, (a, b, 1e-16, 0.0))
    assert torch.vmap(refuse_vanishing, in_dims=(1, 0, None, None))(a, b.mT, 1e-16, 0.0).shape == (3, 2)
