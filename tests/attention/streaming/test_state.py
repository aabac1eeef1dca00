"""Attention to a stream, against the causal call, the reference and its own certificate."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.near_linear import bounded_plan as bounded
from separatrix.attention.streaming.ledger import StreamLedger
from tests.attention.streaming.drawn_tokens import SEEN, part, tokens, uniform


@settings(max_examples=60, deadline=None)
@given(
    order=st.integers(2, 4),
    d=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    bound=st.sampled_from([0.1, 0.7, 1.0, 1.2]),
    norm=st.sampled_from(["entries", "order"]),
    tolerance=st.sampled_from([1e-1, 1e-3, 1e-6]),
    corners=st.booleans(),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    magnitude=st.sampled_from([1e-20, 1.0, 1e10]),
    seed=st.integers(0, 10_000),
)
def test_the_certificate_holds(order, d, lengths, bound, norm, tolerance, corners, dtype, magnitude, seed):
    """Outputs are compared with the reference in float64, whose error is at most a thousandth of the smallest bound."""
    lengths = lengths[: order - 1]
    made = [uniform(seed + m, length, d) for m, length in enumerate([4, *lengths])]
    if corners:
        made = [torch.sign(x) for x in made]
    if norm == "order":
        made = [x / torch.linalg.vector_norm(x, order, dim=-1, keepdim=True) for x in made]
    query, *keys = ((bound * x).to(dtype) for x in made)
    values = [(magnitude * uniform(seed + 9 + m, length, 2)).to(dtype) for m, length in enumerate(lengths)]
    scale = 1.0 if norm == "order" else None
    state = sx.TensorAttentionState(order, d, 2, bound=bound, tolerance=tolerance, scale=scale, norm=norm, dtype=dtype)
    for m in range(1 if order == 2 else 0):  # one set, also in two pieces
        state.append(keys[m][:1], values[m][:1])
        state.append(keys[m][1:], values[m][1:])
    if order > 2:
        state.append(keys, values)
    wide = [x.double() for x in (query, *keys, *values)]
    exact, _ = reference.tensor_attention(wide[0], wide[1:order], wide[order:], scale=scale)
    certificate = state.certificate
    error = (state.attend(query).double() - exact).abs().max().item()
    assert error <= certificate.total * (1 + 1e-3) + 1e-15 * magnitude ** (order - 1)
    largest = math.prod(float(value.abs().max()) for value in values)
    if dtype == torch.float64:
        assert certificate.total <= tolerance * largest


BAD = {
    "order": {"order": 1},
    "head_dim": {"head_dim": 0},
    "value_dim": {"value_dim": 2.0},
    "bound": {"bound": 0.0},
    "tolerance": {"tolerance": -1.0},
    "norm": {"norm": "l2"},
    "dtype": {"dtype": torch.int64},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_plans_are_named(name):
    good = {"order": 3, "head_dim": 2, "value_dim": 2, "bound": 1.0, "tolerance": 1e-2}
    with pytest.raises(sx.ArgumentError, match=name):
        sx.TensorAttentionState(**(good | BAD[name]))


def test_a_bound_out_of_reach_says_so():
    with pytest.raises(sx.SeparatrixError, match="lower the bound"):
        sx.TensorAttentionState(3, 16, 16, bound=5.0, tolerance=1e-3)


def test_merged_states_are_the_state_of_all_tokens():
    query, keys, values = tokens(3, 3, 20, 3, 2)
    first, second, whole = (
        sx.TensorAttentionState(3, 3, 2, bound=1.0, tolerance=1e-3, dtype=torch.float64) for _ in range(3)
    )
    first.append(part(keys, 0, 8), part(values, 0, 8))
    second.append(part(keys, 8, 20), part(values, 8, 20))
    whole.append(keys, values)
    before = second.attend(query)
    first.merge(second)
    torch.testing.assert_close(first.attend(query), whole.attend(query), atol=1e-14, rtol=0)
    assert torch.equal(second.attend(query), before)
    assert first.tokens == (20, 20)
    with pytest.raises(sx.ArgumentError, match=r"other: expected a state with bound = 1.0, got bound = 0.5"):
        first.merge(sx.TensorAttentionState(3, 3, 2, bound=0.5, tolerance=1e-3, dtype=torch.float64))


@pytest.mark.parametrize("order", [2, 3])
def test_gradients(order):
    """The dtype and shape errors of everything that is appended, and of the query."""
    query, keys, values = tokens(5, order, 6, 2, 3)
    inputs = [x.requires_grad_() for x in (query[:2].clone(), *keys, *values)]

    def attend(query, *sets):
        state = sx.TensorAttentionState(order, 2, 3, bound=1.1, tolerance=1e-2, dtype=torch.float64)
        keys, values = sets[: order - 1], sets[order - 1 :]
        state.append(part(keys, 0, 4), part(values, 0, 4))
        state.append(part(keys, 4, 6), part(values, 4, 6))
        return state.attend(query)

    assert torch.autograd.gradcheck(attend, inputs)


def test_detached_tokens_have_no_gradient():
    query, keys, values = tokens(6, 2, 6, 2, 3)
    key, value = keys[0].requires_grad_(), values[0].requires_grad_()
    state = sx.TensorAttentionState(2, 2, 3, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    state.append(key[:4], value[:4])
    state.detach()
    state.append(key[4:], value[4:])
    state.attend(query).sum().backward()
    assert not key.grad[:4].any()
    assert key.grad[4:].all()


def test_nothing_is_promised_of_values_that_underflow():
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    key, value = torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    state.append([key, key], [value * 2.0**-500, value * 2.0**-500])
    assert state.certificate.total == math.inf


@pytest.mark.parametrize(("bound", "scale"), [(1e80, 5e-161), (1e10, 1e-20), (1e-9, 1e17)])
def test_bounds_far_from_one(bound, scale):
    """Powers of such coordinates would overflow or underflow unless they are rescaled first."""
    x = 2 * torch.rand(3, 50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    state = sx.TensorAttentionState(2, 2, 2, bound=bound, tolerance=1e-6, scale=scale, dtype=torch.float64)
    state.append(x[0] * bound, x[1])
    exact = torch.softmax(scale * bound**2 * x[2] @ x[0].mT, -1) @ x[1]
    assert (state.attend(x[2] * bound) - exact).abs().max() <= state.certificate.total < 1e-5


def test_overflowing_values_have_no_certificate():
    def certificate(*powers, dtype=torch.float64):
        state = sx.TensorAttentionState(len(powers) + 1, 2, 2, bound=0.5, tolerance=1e-3, dtype=dtype)
        keys = [torch.full((3, 2), 0.5, dtype=dtype)] * len(powers)
        state.append(keys, [torch.full((3, 2), 10.0**power, dtype=dtype) for power in powers])
        return state.certificate.total

    assert certificate(-102, -220, 85, 62) == math.inf  # the product of the first two underflows
    assert certificate(200, 200, -300) == math.inf
    assert certificate(-102, 85) < 1e-18
    assert certificate(3, 3, dtype=torch.float16) == math.inf  # outputs of 1e6
    assert certificate(2, 2, dtype=torch.float16) < 100


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("scale", "x"), ("scale", math.nan), ("batch_shape", 3), ("batch_shape", (-1,)), ("batch_shape", (1.5,))],
)
def test_arguments_of_a_state(name, wrong):
    with pytest.raises(sx.ArgumentError, match=name):
        sx.TensorAttentionState(2, 2, 2, bound=1.0, tolerance=1e-3, **{name: wrong})


@given(order=st.integers(2, 9), bound=st.floats(1e-30, 1e30), scale=st.floats(1e-30, 1e30))
def test_powers_of_two_rescale_coordinates_and_change_no_score(order, bound, scale):
    exponents = bounded.balanced_exponents(order, bound, scale)
    assert sum(exponents) == 0
    sizes = [math.log2(bound * scale), *[math.log2(bound)] * (order - 1)]
    at = [size + exponent for size, exponent in zip(sizes, exponents, strict=True)]
    assert max(at) - min(at) < 4.0


def test_outputs_with_too_large_rounding_errors_are_refused():
    state = sx.TensorAttentionState(2, 2, 2, bound=1.0, tolerance=1e-6)
    state.append(torch.ones(3, 2), torch.ones(3, 2))
    state.attend(torch.ones(1, 2))
    state.ledger.roundings = [10**9]  # as after 10^9 single tokens
    with pytest.raises(sx.SeparatrixError, match="exceeds the tolerance"):
        state.attend(torch.ones(1, 2))


def test_scores_too_large_for_the_digits_of_float64_are_refused():
    """With weights from exp(-20) to exp(20), truncation could meet a tolerance of 1e-6, but rounding could not."""
    with pytest.raises(sx.SeparatrixError, match="digits"):
        sx.TensorAttentionState(2, 1, 1, bound=math.sqrt(20.0), scale=1.0, tolerance=1e-6)


def test_a_state_of_no_heads():
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-3, batch_shape=(0,))
    state.append([torch.ones(0, 3, 2)] * 2, [torch.ones(0, 3, 2)] * 2)
    assert state.attend(torch.ones(0, 4, 2)).shape == (0, 4, 2)


def test_a_bound_whose_power_overflows():
    with pytest.raises(sx.SeparatrixError, match="bound"):
        sx.TensorAttentionState(3, 2, 2, bound=1e200, tolerance=1e-3)


def test_gradients_with_masks():
    """Hidden tokens have no gradient, and neither has a query that attends nothing."""
    query, keys, values = tokens(0, 3, 4, 2, 2, (2,))
    seen = torch.tensor([[True, False, True, True], [False, False, False, False]])

    def call(*given):
        state = sx.TensorAttentionState(3, 2, 2, batch_shape=(2,), bound=1.0, tolerance=1e-2, dtype=torch.float64)
        query, sets = given[0], (given[1:3], given[3:])
        first = state.extend(query[:, :3], *(part(x, 0, 3) for x in sets), key_masks=[seen[:, :3], None])
        state.append(*(part(x, 3, 4) for x in sets), key_masks=[seen[:, 3:], None])
        return torch.cat([first, state.attend(query)], 1)

    given = [(0.9 * x).requires_grad_() for x in (query, *keys, *values)]
    assert torch.autograd.gradcheck(call, given)
    grads = torch.autograd.grad(call(*given).square().sum(), given)
    assert not grads[1][~seen].any()
    assert not grads[0][1].any()
    assert grads[1][0, seen[0]].all()


def test_a_merged_state_counts_one_more_rounding():
    """Tokens are added up, the largest value is kept, and roundings are those of the sum of the two states."""
    ledger, other = StreamLedger([3, 4], [0.5, 2.0], [7, 1], None), StreamLedger([1, 0], [0.7, 0.0], [2, 5], None)
    ledger.merge(other)
    assert ledger == StreamLedger([4, 4], [0.7, 2.0], [8, 6], None)


def test_merged_states_with_masks():
    query, keys, values = tokens(0, 3, 6, 3, 2, (2, 2))
    options = {"batch_shape": (2, 2), "bound": 1.0, "tolerance": 1e-4, "dtype": torch.float64}
    whole, *parts = (sx.TensorAttentionState(3, 3, 2, **options) for _ in range(4))
    whole.append(keys, values, key_masks=[SEEN, SEEN])
    for state, here, masked in zip(parts, (slice(0, 3), slice(3, 4), slice(4, 6)), (True, False, True), strict=True):
        masks = [SEEN[..., here]] * 2 if masked else None  # the fourth token is visible to both sequences
        state.append(part(keys, here.start, here.stop), part(values, here.start, here.stop), key_masks=masks)
    first, second, third = parts
    second.merge(first)
    second.merge(third)
    torch.testing.assert_close(second.attend(query), whole.attend(query), rtol=0, atol=1e-13)
    second.load_state_dict(second.state_dict())
