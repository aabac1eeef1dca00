"""Exact attention: the contract, and its own tests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import separatrix as sx
from separatrix.attention import operator as public
from separatrix.attention import reference
from separatrix.attention.exact import fused, operators
from separatrix.attention.exact import torch as in_pytorch
from separatrix.errors import ArgumentError
from tests.attention.exact.peak_bytes import peak_bytes
from tests.contracts.attention_contract import ORDERS, AttentionContract, draw, inputs
from tests.contracts.engines import engine  # noqa: F401
from tests.pairwise import pairwise


class TestExact(AttentionContract):
    def attend(self, query, keys, values, **options):
        return sx.tensor_attention(query, keys, values, method="exact", return_lse=True, **options)

    @pytest.mark.parametrize(
        ("order", "windows", "options"),
        pairwise(
            ORDERS,
            [(1, None, 2), (3, 2, 5), (None, 4, 100)],
            [{}, {"is_causal": True, "query_offset": 3}, {"query_offset": -2}],
        ),
    )
    def test_windows(self, order, windows, options):
        if order == 2 and windows[0] is None:
            windows = (2,)
        self.agrees(*inputs(order, 9, [9, 11, 8]), windows=windows[: order - 1], **options)

    @pytest.mark.parametrize("order", ORDERS)
    def test_gradients_with_everything(self, order):
        query = draw(0, 1, 2, 3, 2).requires_grad_()
        sets = [draw(1 + m, 1, 1, 4, 2).requires_grad_() for m in range(2 * (order - 1))]
        masks = [torch.tensor([True, True, False, True]), None, None][: order - 1]

        def function(q, *sets):
            return sx.tensor_attention(
                q,
                list(sets[: order - 1]),
                list(sets[order - 1 :]),
                is_causal=True,
                query_offset=1,
                windows=[3, None, 2][: order - 1],
                key_masks=masks,
                enable_gqa=True,
                return_lse=True,
            )

        assert torch.autograd.gradcheck(function, (query, *sets))


@pytest.mark.parametrize(
    ("query_length", "options", "scale"),
    pairwise([64, 131, 160], [{}, {"is_causal": True}, {"windows": [None, 40]}], [0.5, 300.0]),
)
def test_one_head_is_split_by_rows(query_length, options, scale):
    """The rows of one head are distributed over copies of the keys; with large scores, maxima are subtracted."""
    query, *sets = draw(0, 5, query_length, 3)
    expected = reference.tensor_attention(query, sets[:2], sets[2:], scale=scale, **options)
    output = sx.tensor_attention(query, sets[:2], sets[2:], scale=scale, return_lse=True, **options)
    assert torch.allclose(output[0], expected[0], atol=1e-12)
    assert torch.allclose(output[1], expected[1], rtol=1e-12)


@given(
    order=st.sampled_from(ORDERS),
    lengths=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    query_length=st.integers(0, 6),
    is_causal=st.booleans(),
    offset=st.integers(-4, 7),
    windows=st.lists(st.none() | st.integers(1, 6), min_size=3, max_size=3),
    block=st.sampled_from([8, 64, 1 << 10]),
    seed=st.integers(0, 1000),
)
def test_any_shape_and_any_block_size(order, lengths, query_length, is_causal, offset, windows, block, seed):
    """Blocks of a few numbers test every split of heads, rows, tuples and the longest set."""
    offset = offset or 1
    lengths, windows = lengths[: order - 1], windows[: order - 1]
    query = draw(seed, 3, query_length, 2).requires_grad_()
    sets = [draw(seed + m, 3, length, 2).requires_grad_() for m, length in enumerate(lengths * 2, 1)]
    keys, values = sets[: order - 1], sets[order - 1 :]
    options = {"is_causal": is_causal, "query_offset": offset, "windows": windows}
    expected = reference.tensor_attention(query, keys, values, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(in_pytorch.SCORES, "cpu", block)
        patch.setattr(in_pytorch, "ROWS", 4)
        output = sx.tensor_attention(query, keys, values, return_lse=True, **options)
        empty = expected[1] == -torch.inf
        assert torch.equal(output[1] == -torch.inf, empty)
        assert torch.allclose(output[0], expected[0], atol=1e-12)
        assert torch.allclose(output[1][~empty], expected[1][~empty], atol=1e-12)
        weights = draw(seed + 9, *output[0].shape), draw(seed + 10, *output[1].shape).masked_fill(empty, 0.0)

        def gradients(out, lse):
            total = (out * weights[0]).sum() + (lse.masked_fill(empty, 0.0) * weights[1]).sum()
            return torch.autograd.grad(total, [query, *sets])

        for ours, theirs in zip(gradients(*output), gradients(*expected), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-11)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_huge_scores(order, is_causal, masked):
    """Scores are of magnitude 1e4 and of both signs, and those of hidden keys are far above all others."""
    query, keys, values = inputs(order, 6, [6, 6, 6])
    query = 1e4 * query
    masks = [torch.arange(6) % 2 == 0] * (order - 1) if masked else None
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    options = {"is_causal": is_causal, "key_masks": masks, "scale": 3.0}
    output = sx.tensor_attention(query, keys, values, return_lse=True, **options)
    expected = reference.tensor_attention(query, keys, values, **options)
    for ours, theirs in zip(output, expected, strict=True):
        empty = theirs == -torch.inf
        assert torch.equal(ours == -torch.inf, empty)
        assert torch.allclose(ours[~empty], theirs[~empty], rtol=1e-12, atol=1e-10)
    ours, theirs = (torch.autograd.grad(out.sum(), leaves) for out, _ in (output, expected))
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, rtol=1e-8, atol=1e-8 * other.abs().max().item() + 1e-200)


def test_all_scores_far_below_zero_of_a_hidden_key():
    """A hidden key has score 0 while the others have -1000: it must neither get weight nor cause an overflow."""
    query, key = torch.full((1, 1, 1), -1000.0), torch.tensor([[[1.0], [0.5]]])
    value = torch.tensor([[[3.0], [float("nan")]]])
    for leaf in (query, key):
        leaf.requires_grad_()
    mask = torch.tensor([True, False])
    out, lse = sx.tensor_attention(
        query, [key, key], [value, value], key_masks=[mask, mask], scale=1.0, return_lse=True
    )
    assert out.item() == 9
    assert lse.item() == -1000
    gradients = torch.autograd.grad(out.sum() + lse.sum(), [query, key])
    assert torch.equal(gradients[0], torch.ones(1, 1, 1))
    assert torch.equal(gradients[1], torch.tensor([[[-2000.0], [0.0]]]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_inf_are_not_hidden(bad):
    query, keys, values = inputs(3, 4, [4, 4])
    values[0][0, 2, 0] = bad
    keys[1][1, 0, 0] = bad
    out = sx.tensor_attention(query, keys, values)
    assert not torch.isfinite(out[0, :, 0]).any()
    assert torch.isfinite(out[0, :, 1]).all()
    assert torch.isnan(out[1]).all()


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)])
@pytest.mark.parametrize("order", ORDERS)
def test_narrow_types_accumulate_wide(dtype, error, order):
    """The error is one rounding of the output plus the error of float32: inputs are rounded before both computations.

    Some processors multiply weights in bfloat16, so that the log-sum-exp has a larger error.
    """
    query, keys, values = (
        [x.to(dtype) for x in part] if isinstance(part, list) else part.to(dtype)
        for part in inputs(order, 40, [50, 30, 7])
    )
    out, lse = sx.tensor_attention(query, keys, values, return_lse=True)
    wide = reference.tensor_attention(query.double(), [x.double() for x in keys], [x.double() for x in values])
    assert out.dtype == dtype
    assert lse.dtype == torch.float32
    assert (out.double() - wide[0]).abs().max() <= error
    assert (lse.double() - wide[1]).abs().max() <= (5e-4 if dtype == torch.bfloat16 else 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_order_two_is_pytorchs_own(dtype):
    query, (key,), (value,) = inputs(2, 5, [7], d=4, d_v=4)
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=0.3)
    assert (sx.tensor_attention(query, key, value, scale=0.3) - theirs).abs().max() <= 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_to_attend_has_no_gradient(order):
    query, keys, values = inputs(order, 4, [4, 4, 4])
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    out, lse = sx.tensor_attention(query, keys, values, is_causal=True, query_offset=-2, return_lse=True)
    assert torch.equal(out[:, :2], torch.zeros(2, 2, 2, dtype=torch.float64))
    gradients = torch.autograd.grad(out.sum() + lse[:, 2:].sum(), leaves, retain_graph=True)
    assert torch.equal(gradients[0][:, :2], torch.zeros(2, 2, 3, dtype=torch.float64))
    assert all(torch.isfinite(x).all() for x in gradients)
    into = (torch.full_like(out, 5.0), torch.full_like(lse, 5.0))
    gradients = torch.autograd.grad((out, lse), leaves, into)
    assert torch.equal(gradients[0][:, :2], torch.zeros(2, 2, 3, dtype=torch.float64))
    assert all(torch.isfinite(x).all() for x in gradients)


@pytest.mark.parametrize("order", ORDERS)
def test_second_derivatives(order):
    query, keys, values = inputs(order, 2, [2, 2, 2], d=2, d_v=1, batch=(1,))
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    masks = [torch.tensor([True, True])] * (order - 1)

    def function(q, *sets):
        return sx.tensor_attention(
            q, list(sets[: order - 1]), list(sets[order - 1 :]), is_causal=True, key_masks=masks, return_lse=True
        )

    assert torch.autograd.gradgradcheck(function, leaves)


def test_second_derivatives_refuse_overflowing_inputs(monkeypatch):
    monkeypatch.setattr(operators, "LARGEST_VOLUME", 2 * 3 * 4 * 5 - 1)
    query, keys, values = inputs(3, 3, [4, 5])
    query.requires_grad_()
    (gradient,) = torch.autograd.grad(sx.tensor_attention(query, keys, values).sum(), query, create_graph=True)
    with pytest.raises(sx.SeparatrixError, match="at most 119 entries; this call has 120"):
        gradient.sum().backward()


def test_uninitialised_memory_is_never_read(monkeypatch):
    """With all uninitialised memory set to NaN the result is the same."""
    expected = sx.tensor_attention(*inputs(4, 5, [5, 5, 5]), is_causal=True, return_lse=True)
    empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda x, *a, **k: empty(x, *a, **k).fill_(float("nan")))
    poisoned = sx.tensor_attention(*inputs(4, 5, [5, 5, 5]), is_causal=True, return_lse=True)
    assert all(torch.equal(x, y) for x, y in zip(expected, poisoned, strict=True))


def test_results_are_deterministic():
    arguments = inputs(3, 50, [60, 70], d=8)
    assert torch.equal(sx.tensor_attention(*arguments), sx.tensor_attention(*arguments))


def test_without_gradients():
    query, keys, values = inputs(3, 5, [4, 6])
    query.requires_grad_()
    with torch.no_grad():
        assert not sx.tensor_attention(query, keys, values).requires_grad


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script:DeprecationWarning"
)  # PyTorch's own warning when the first Hessian is computed
def test_vmap_and_grad_of_torch_func():
    query, keys, values = inputs(3, 5, [4, 6], batch=(3,))
    attend = sx.tensor_attention

    def one(q, k1, k2, v1, v2):
        return attend(q, [k1, k2], [v1, v2], return_lse=True)

    mapped = torch.func.vmap(one, in_dims=(0, 1, None, 0, None))(
        query, keys[0].movedim(0, 1), keys[1][0], values[0], values[1][0]
    )
    for i in range(3):
        single = one(query[i], keys[0][i], keys[1][0], values[0][i], values[1][0])
        assert all(torch.allclose(x[i], y, atol=1e-13) for x, y in zip(mapped, single, strict=True))

    def loss(q, mask):
        return attend(q, keys, values, key_masks=[mask, None]).square().sum()

    masks = torch.tensor([[True, True, False, True], [True, False, True, True]])
    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(query, masks)
    for i in range(2):
        leaf = query.clone().requires_grad_()
        assert torch.allclose(gradients[i], torch.autograd.grad(loss(leaf, masks[i]), leaf)[0], atol=1e-13)
    hessian = torch.func.jacrev(torch.func.jacrev(lambda q: loss(q, masks[0])))(query[:, :1])
    assert torch.allclose(hessian, torch.autograd.functional.hessian(lambda q: loss(q, masks[0]), query[:, :1]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled():
    """Compile to machine code; `test_transforms` tests only the graph, as the kind "windows"."""
    query, keys, values = inputs(3, 5, [4, 6])
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]

    def model(q, k1, k2, v1, v2):
        return torch.tanh(
            sx.tensor_attention(torch.sin(q), [k1, k2], [v1, v2], windows=[2, None], query_offset=1)
        ).sum()

    plain, compiled = model(*leaves), torch.compile(model, fullgraph=True)(*leaves)
    assert torch.allclose(plain, compiled, atol=1e-13)
    for x, y in zip(*(torch.autograd.grad(loss, leaves) for loss in (plain, compiled)), strict=True):
        assert torch.allclose(x, y, atol=1e-13)


@pytest.mark.parametrize("backward", [False, True])
def test_memory_does_not_store_all_scores(backward):
    """Order 3 at n = 300, d = 64 has 27 million scores (103 MiB); blocks, inputs and outputs take far less."""
    query, *sets = (torch.rand(1, 300, 64).requires_grad_() for _ in range(5))

    def work():
        out = sx.tensor_attention(query, sets[:2], sets[2:])
        if backward:
            out.sum().backward()

    work()
    assert peak_bytes(work) < (24 if backward else 16) * 2**20


def test_masks_of_some_key_sets_alone_are_refused():
    """The operators take a mask for every set or for none: a missing mask would shift the others to wrong sets."""
    query, key = torch.zeros(1, 3, 2), torch.zeros(1, 3, 2)
    mask = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(sx.ArgumentError, match=r"masks: expected a mask for every key set, or for none, got.*1 masks"):
        operators.attend(query, [key, key], [key, key], [None, mask], False, 0, [0, 0], 0.5)


@pytest.mark.parametrize("is_causal", [False, True])
def test_order_two_without_options_skips_the_checks_of_options(is_causal, monkeypatch):
    monkeypatch.setattr(public, "check_arguments", None)
    query, key, value = torch.randn(3, 2, 3, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    out = public.tensor_attention(query, [key], [value], is_causal=is_causal)
    torch.testing.assert_close(out, reference.tensor_attention(query, [key], [value], is_causal=is_causal)[0])


def test_causal_order_two_with_unequal_lengths_is_refused_by_name():
    query, key = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 7, 4)
    assert fused.plain_attention(query, key, key, False, None) is not None
    assert fused.plain_attention(query, key, key, True, None) is None
    with pytest.raises(ArgumentError, match="is_causal"):
        public.tensor_attention(query, key, key, is_causal=True)


def test_autocast_does_not_reach_order_two():
    query, key, value = torch.randn(3, 1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = public.tensor_attention(query, key, value, is_causal=True)
    assert torch.equal(inside, public.tensor_attention(query, key, value, is_causal=True))
