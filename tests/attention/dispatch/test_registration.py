"""Forward- and reverse-mode derivatives of exact attention, of any order and nesting, against the definition's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.exact import operators as exact
from separatrix.attention.exact import torch as in_pytorch
from separatrix.attention.near_linear.bounded_attention import attend_within_bound, attend_within_bound_backward
from tests.attention.exact.test_operators import peak_bytes
from tests.contracts.attention_contract import ORDERS, draw, inputs
from tests.contracts.call_kinds import both
from tests.contracts.engines import engine  # noqa: F401
from tests.pairwise import pairwise

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # PyTorch's own

EVERYTHING = {"is_causal": True, "query_offset": -1, "windows": 3, "mask": torch.tensor([True, False, True, True])}


def function(attend, order, options):
    """Concatenate output and log-sum-exp, as a function of query, keys and values, into one tensor."""
    count, given = order - 1, dict(options)
    window, mask = given.pop("windows", None), given.pop("mask", None)
    given["windows"] = None if window is None else [window, *[None] * (count - 1)]
    given["key_masks"] = None if mask is None else [*[None] * (count - 1), mask]

    def call(query, *sets):
        return both(*attend(query, list(sets[:count]), list(sets[count:]), **given))

    return call


def ours(order, options):
    return function(lambda *tensors, **given: sx.tensor_attention(*tensors, return_lse=True, **given), order, options)


def definition(order, options):
    return function(reference.tensor_attention, order, options)


def leaves(order, length=4, d=2):
    return tuple(draw(seed, 2, length, d) for seed in range(2 * order - 1))


def changes(order, seed, length=4, d=2):
    return tuple(draw(seed + index, 2, length, d) for index in range(2 * order - 1))


def loss(f):
    return lambda *x: f(*x).sin().sum()


def every(x):
    return tuple(range(len(x)))


def dual(f, x, dx):
    with forward_ad.dual_level():
        made = f(*(forward_ad.make_dual(a, da) for a, da in zip(x, dx, strict=True)))
        return [forward_ad.unpack_dual(a).tangent for a in tree_leaves(made)]


def of_some(f, x, dx):
    """The tangent of the result if only the first key set has a tangent."""
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(x[0], forward_ad.make_dual(x[1], dx[1]), *x[2:])).tangent


def twice_by_autograd(f, x):
    x = [a.clone().requires_grad_() for a in x]
    first = torch.autograd.grad(loss(f)(*x), x, create_graph=True)
    return torch.autograd.grad(sum(a.sin().sum() for a in first), x)


def forward_over_reverse(f, x, dx):
    with forward_ad.dual_level():
        made = [forward_ad.make_dual(a.clone().requires_grad_(), da) for a, da in zip(x, dx, strict=True)]
        return [forward_ad.unpack_dual(a).tangent for a in torch.autograd.grad(loss(f)(*made), made, create_graph=True)]


def autograd_over(inner, x):
    """The gradient, by autograd, of the result of a transform."""
    x = [a.clone().requires_grad_() for a in x]
    return torch.autograd.grad(sum(a.sin().sum() for a in tree_leaves(inner(*x))), x)


NESTED = {
    "jvp": lambda f, x, dx, dy: jvp(f, x, dx),
    "jvp of jvp": lambda f, x, dx, dy: jvp(lambda *y: jvp(f, y, dx)[1], x, dy),
    "jvp of jvp of jvp": lambda f, x, dx, dy: jvp(lambda *z: jvp(lambda *y: jvp(f, y, dx)[1], z, dy)[1], x, dx),
    "jvp of grad": lambda f, x, dx, dy: jvp(grad(loss(f), every(x)), x, dx),
    "grad of jvp": lambda f, x, dx, dy: grad(lambda *y: jvp(loss(f), y, dx)[1], every(x))(*x),
    "jvp of jvp of grad": lambda f, x, dx, dy: jvp(lambda *y: jvp(grad(loss(f), every(x)), y, dx)[1], x, dy),
    "grad of grad of grad": lambda f, x, dx, dy: grad(loss(grad(loss(grad(loss(f))), 1)), 2)(*x),
    "vjp": lambda f, x, dx, dy: vjp(f, *x)[1](f(*x).cos()),
    "jacfwd": lambda f, x, dx, dy: jacfwd(f, every(x))(*x),
    "jacrev": lambda f, x, dx, dy: jacrev(f, every(x))(*x),
    "hessian": lambda f, x, dx, dy: hessian(loss(f), (0, 1, len(x) - 1))(*x),
    "jacrev of jacrev": lambda f, x, dx, dy: jacrev(jacrev(loss(f), (0, 1)), (0, 1))(*x),
    "jacrev of jacfwd": lambda f, x, dx, dy: jacrev(jacfwd(loss(f), (0, 1)), (0, 1))(*x),
    "jacfwd of jacfwd": lambda f, x, dx, dy: jacfwd(jacfwd(loss(f), (0, 1)), (0, 1))(*x),
    "vmap": lambda f, x, dx, dy: vmap(f)(*x),
    "vmap, some of the inputs": lambda f, x, dx, dy: vmap(f, (0, *[None] * (len(x) - 1)))(
        x[0], *(a[:1] for a in x[1:])
    ),
    "vmap of grad": lambda f, x, dx, dy: vmap(grad(loss(f), every(x)))(*x),
    "grad of vmap": lambda f, x, dx, dy: grad(loss(vmap(f)), every(x))(*x),
    "vmap of jvp": lambda f, x, dx, dy: vmap(lambda *y: jvp(f, y, tuple(a[0] for a in dx)))(*x),
    "vmap of hessian": lambda f, x, dx, dy: vmap(hessian(loss(f)))(*x),
    "vmap of vmap": lambda f, x, dx, dy: vmap(vmap(f, (None, *[0] * (len(x) - 1))), (0, *[None] * (len(x) - 1)))(*x),
    "forward_ad": lambda f, x, dx, dy: dual(f, x, dx),
    "forward_ad, one input": lambda f, x, dx, dy: of_some(f, x, dx),
    "forward_ad over autograd": lambda f, x, dx, dy: forward_over_reverse(f, x, dx),
    "autograd twice": lambda f, x, dx, dy: twice_by_autograd(f, x),
    "autograd over grad": lambda f, x, dx, dy: autograd_over(grad(loss(f), every(x)), x),
    "autograd over jvp": lambda f, x, dx, dy: autograd_over(lambda *y: jvp(f, y, dx)[1], x),
}


@pytest.mark.parametrize(("transform", "options", "order"), pairwise(NESTED, [{}, EVERYTHING], [2, 3]))
def test_nested(transform, options, order):
    given = leaves(order), changes(order, 100), changes(order, 200)
    actual, expected = (tree_leaves(NESTED[transform](make(order, options), *given)) for make in (ours, definition))
    assert any(x.abs().max() > 1e-3 for x in expected)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-11)


@given(
    order=st.sampled_from(ORDERS),
    lengths=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    query_length=st.integers(0, 6),
    is_causal=st.booleans(),
    offset=st.integers(-4, 7),
    windows=st.lists(st.none() | st.integers(1, 6), min_size=3, max_size=3),
    masked=st.booleans(),
    block=st.sampled_from([8, 64, 1 << 10]),
    seed=st.integers(0, 1000),
)
def test_tangents_of_any_shape_in_any_block_size(
    order, lengths, query_length, is_causal, offset, windows, masked, block, seed
):
    """Blocks of a few numbers test every split of heads, rows, tuples and the longest set."""
    offset, lengths, windows = offset or 1, lengths[: order - 1], windows[: order - 1]
    x = [draw(seed + m, 3, length, 2) for m, length in enumerate([query_length, *lengths, *lengths])]
    dx = [draw(seed + 50 + m, *a.shape) for m, a in enumerate(x)]
    masks = [draw(seed + 90 + m, 3, length) > -0.5 for m, length in enumerate(lengths)] if masked else None
    options = {"is_causal": is_causal, "query_offset": offset, "windows": windows, "key_masks": masks}

    def tangents(attend, **more):
        def call(query, *sets):
            return both(*attend(query, list(sets[: order - 1]), list(sets[order - 1 :]), **options, **more))

        return jvp(call, tuple(x), tuple(dx))[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(in_pytorch.SCORES, "cpu", block)
        patch.setattr(in_pytorch, "ROWS", 4)
        found = tangents(sx.tensor_attention, return_lse=True)
    torch.testing.assert_close(found, tangents(reference.tensor_attention), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("masked", [False, True])
def test_tangents_of_huge_scores(order, masked):
    """Tangents are right for scores of magnitude 1e4 of both signs, where weights underflow and lse is far from 0."""
    options = {"scale": 3.0, **({"mask": EVERYTHING["mask"]} if masked else {})}
    x = (1e4 * leaves(order)[0], *leaves(order)[1:])
    actual, expected = (jvp(make(order, options), x, changes(order, 100))[1] for make in (ours, definition))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9 * expected.abs().max().item())


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)])
def test_tangents_of_narrow_types_accumulate_wide(dtype, error):
    """The error is one rounding of the tangent plus that of float32: inputs are rounded before both computations."""
    x, dx = ([a.to(dtype) for a in made] for made in (leaves(3, 40), changes(3, 100, 40)))
    found = dual(lambda q, *sets: sx.tensor_attention(q, sets[:2], sets[2:], return_lse=True), x, dx)
    wide = dual(
        lambda q, *sets: reference.tensor_attention(q, sets[:2], sets[2:]), *([a.double() for a in y] for y in (x, dx))
    )
    assert [a.dtype for a in found] == [dtype, torch.float32]
    assert (found[0].double() - wide[0]).abs().max() <= error
    assert (found[1].double() - wide[1]).abs().max() <= 1e-5


def test_second_derivatives_of_narrow_types_are_computed_in_float32():
    x = [a.bfloat16().requires_grad_() for a in leaves(3)]
    wide = [a.detach().double().requires_grad_() for a in x]

    def second(f, of):
        (first,) = torch.autograd.grad(f(*of).sum(), of[:1], create_graph=True)
        return torch.autograd.grad(first.sum(), of[:1])[0]

    actual = second(lambda q, *sets: sx.tensor_attention(q, sets[:2], sets[2:]), x)
    expected = second(lambda q, *sets: reference.tensor_attention(q, sets[:2], sets[2:])[0], wide)
    assert actual.dtype == torch.bfloat16
    # bfloat16 has 8 bits: the first gradient is rounded to it, and the second derivative once more.
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=0.02 * expected.abs().max().item())


def test_masked_keys_reach_no_derivative():
    """Hidden keys change nothing, even if a key, a value or a tangent is NaN."""
    x, dx = list(leaves(3)), list(changes(3, 100))
    for hidden in (x[2], x[4], dx[2], dx[4]):
        hidden[:, 1] = float("nan")
    f = ours(3, {"mask": EVERYTHING["mask"]})  # the last key set
    tangents = jvp(f, tuple(x), tuple(dx))[1]
    x[2][:, 1] = x[4][:, 1] = dx[2][:, 1] = dx[4][:, 1] = 0.0
    torch.testing.assert_close(tangents, jvp(f, tuple(x), tuple(dx))[1], rtol=0, atol=0)
    x[2][:, 1] = x[4][:, 1] = float("nan")
    second = twice_by_autograd(f, x)
    assert all(torch.isfinite(a).all() for a in second)
    assert torch.equal(second[2][:, 1], torch.zeros(2, 2, dtype=torch.float64))


def test_tangents_do_not_store_all_scores():
    """Order 3 at n = 300, d = 64 has 27 million scores (103 MiB); blocks, inputs and outputs take far less."""
    x = tuple(torch.rand(1, 300, 64) for _ in range(5))

    def work():
        return jvp(lambda q, *sets: sx.tensor_attention(q, sets[:2], sets[2:]), x, x)

    work()
    assert peak_bytes(work) < 32 * 2**20


@pytest.mark.parametrize(("masked", "is_causal"), [(False, False), (True, True)])
def test_operators_are_well_registered(masked, is_causal):
    query, keys, values = inputs(3, 3, [4, 5])
    masks = [draw(m, 2, key.shape[1]) > -0.5 for m, key in enumerate(keys)] if masked else []
    arguments = (query, keys, values, masks, is_causal, 1, [0, 2], 0.5)
    out, lse = exact.attend(*arguments)
    torch.library.opcheck(exact.attend_backward, (*arguments, out, lse, torch.ones_like(out), torch.ones_like(lse)))
    torch.library.opcheck(exact.attend_tangents, (*arguments, out, lse, query, keys, values))
    bounded = (query, keys, values, masks, 1.0, 0.1, 0.5, is_causal, 1, True)
    results = attend_within_bound(*bounded)
    torch.library.opcheck(attend_within_bound_backward, (*bounded, results, torch.ones_like(results[0])))
    for x in (query, *keys, *values):
        x.requires_grad_()
    torch.library.opcheck(exact.attend, arguments)
    torch.library.opcheck(attend_within_bound, bounded)


@pytest.mark.parametrize("may_be_exact", [True, False])
@pytest.mark.parametrize("is_causal", [False, True])
def test_bounded_operators_of_heads_that_are_not_contiguous(is_causal, may_be_exact):
    """The heads of one sequence are a transposed view of its projections; gradients are contiguous, as registered."""
    query, *sets = (draw(seed, 5, 2, 3).transpose(0, 1) for seed in range(5))
    arguments = (query, sets[:2], sets[2:], [], 1.0, 0.1, 0.5, is_causal, 0, may_be_exact)
    results = attend_within_bound(*arguments)
    torch.library.opcheck(attend_within_bound_backward, (*arguments, results, torch.ones_like(results[0])))
    torch.library.opcheck(attend_within_bound, arguments)


@pytest.mark.parametrize("is_causal", [False, True])
def test_near_linear_gradients_under_a_dispatch_mode(is_causal):
    """A dispatch mode receives operators below autograd, where gradients are no longer recorded."""
    query, keys, values = inputs(3, 5, [5, 5])
    (query.requires_grad_(), *(x.requires_grad_() for x in (*keys, *values)))

    def gradients():
        out = attend_within_bound(query, keys, values, [], 1.0, 0.1, 0.5, is_causal, 0, False)[0]
        return torch.autograd.grad(out.sin().sum(), [query, *keys, *values])

    expected = gradients()
    with FlopCounterMode(display=False):
        actual = gradients()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def certified(x):
    return sx.tensor_attention(x, [x, x], [x, x], tolerance=1e-3, method="polynomial")


def streamed(x):
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-3, batch_shape=(2,), dtype=torch.float64)
    state.append([x, x], [x, x])
    return state.attend(x)


def layered(x):
    layer = sx.nn.TensorAttention(2, 1, order=3, bound=1.0, tolerance=1e-3, dtype=torch.float64)
    return layer(x)


@pytest.mark.parametrize("attend", [certified, streamed, layered])
def test_near_linear_attention_has_no_second_derivatives(attend):
    """The error is raised also if the incoming gradient is a constant, and if another term of the sum has second
    derivatives.
    """
    x = draw(0, 2, 5, 2).requires_grad_()
    (first,) = torch.autograd.grad(attend(x).sum() + x.pow(3).sum(), x, create_graph=True)
    with pytest.raises(sx.SeparatrixError, match="near-linear attention has no second derivatives"):
        first.sum().backward()


def test_torch_func_with_a_tolerance_is_refused_when_planning_too():
    x = draw(0, 2, 5, 2)
    with pytest.raises(sx.SeparatrixError, match=r"which torch.func .* does not allow"):
        torch.vmap(lambda a: sx.plan_attention(a, a, a, tolerance=1e-3) and a)(x)
