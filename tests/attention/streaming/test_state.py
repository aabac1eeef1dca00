"""Attention to a stream, against the causal call, the reference and its own certificate."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.streaming import bounded_plan as bounded


def uniform(seed, *shape, dtype=torch.float64, bound=1.0):
    generator = torch.Generator().manual_seed(seed)
    return bound * (2 * torch.rand(*shape, dtype=dtype, generator=generator) - 1)


def tokens(seed, order, n, d, d_v, batch=(), dtype=torch.float64, bound=1.0):
    query = uniform(seed, *batch, n, d, dtype=dtype, bound=bound)
    keys = [uniform(seed + m, *batch, n, d, dtype=dtype, bound=bound) for m in range(1, order)]
    values = [uniform(seed + 50 + m, *batch, n, d_v, dtype=dtype) for m in range(1, order)]
    return query, keys, values


def part(sets, *where):
    return [x[..., slice(*where), :] for x in sets]


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_decoding_equals_the_causal_call(order, batch):
    """Token by token, and a prefill in chunks before it: to rounding of each other, within the certificate of exact."""
    n, d, d_v = 23, 3, 4
    query, keys, values = tokens(0, order, n, d, d_v, batch)

    def state():
        return sx.TensorAttentionState(order, d, d_v, bound=1.0, tolerance=1e-4, batch_shape=batch, dtype=torch.float64)

    stepped, outputs = state(), []
    for i in range(n):
        stepped.append(part(keys, i, i + 1), part(values, i, i + 1))
        outputs.append(stepped.attend(query[..., i : i + 1, :]))
    decoded = torch.cat(outputs, -2)
    exact, _ = reference.tensor_attention(query, keys, values, is_causal=True)
    assert (decoded - exact).abs().max() <= stepped.certificate.total <= 1e-4

    prefilled = state()
    for start in (0, 5, 16):
        stop = {0: 5, 5: 16, 16: 17}[start]
        prefilled.append(part(keys, start, stop), part(values, start, stop))
    rest = []
    for i in range(17, n):
        prefilled.append(part(keys, i, i + 1), part(values, i, i + 1))
        rest.append(prefilled.attend(query[..., i : i + 1, :]))
    torch.testing.assert_close(torch.cat(rest, -2), decoded[..., 17:, :], atol=1e-13, rtol=0)
    assert stepped.tokens == prefilled.tokens == (n,) * (order - 1)
    assert stepped.nbytes == state().nbytes


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
    """Against the reference in float64, whose own error is a thousandth of the least that is promised or less."""
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
    for m in range(1 if order == 2 else 0):  # one set: also in two pieces
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


def test_a_token_beyond_the_bound_is_refused_and_nothing_is_added():
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2)
    good, bad = torch.ones(3, 2), torch.tensor([[1.0, 0.5], [1.0, -1.25], [0.0, 0.0]])
    with pytest.raises(sx.ArgumentError, match=r"keys\[1\]: expected entries of at most 1, .* got 1.25 at token 1"):
        state.append([good, bad], [good, good])
    with pytest.raises(sx.ArgumentError, match=r"values\[0\]: expected finite"):
        state.append([good, good], [torch.full((3, 2), math.nan), good])
    with pytest.raises(sx.ArgumentError, match=r"query: expected entries of at most 1, .* got nan"):
        state.attend(torch.full((1, 2), math.nan))
    assert state.tokens == (0, 0)
    assert not state.attend(good).any()
    by_norm = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2, norm="order")
    with pytest.raises(sx.ArgumentError, match=r"keys\[0\]: expected l_3 norms of at most 1, .* got 1.25992"):
        by_norm.append([good, good], [good, good])


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


def test_bad_tokens_are_named():
    state = sx.TensorAttentionState(3, 2, 4, bound=1.0, tolerance=1e-2, batch_shape=(2,))
    key, value = torch.zeros(2, 3, 2), torch.zeros(2, 3, 4)
    with pytest.raises(sx.ArgumentError, match=r"keys: expected 2 sets"):
        state.append(key, [value, value])
    with pytest.raises(sx.ArgumentError, match=r"keys\[1\]: expected shape \(2, length, 2\)"):
        state.append([key, key[0]], [value, value])
    with pytest.raises(sx.ArgumentError, match=r"values\[1\]: expected as many"):
        state.append([key, key], [value, value[:, :2]])
    with pytest.raises(sx.ArgumentError, match=r"query: expected the state's dtype"):
        state.attend(key.double())


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
    """Of all that was appended, in pieces, and of the query."""
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
    """Powers of such coordinates would leave the range unless they are brought together first."""
    x = 2 * torch.rand(3, 50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    state = sx.TensorAttentionState(2, 2, 2, bound=bound, tolerance=1e-6, scale=scale, dtype=torch.float64)
    state.append(x[0] * bound, x[1])
    exact = torch.softmax(scale * bound**2 * x[2] @ x[0].mT, -1) @ x[1]
    assert (state.attend(x[2] * bound) - exact).abs().max() <= state.certificate.total < 1e-5


def test_values_that_leave_the_range_have_no_certificate():
    def certificate(*powers, dtype=torch.float64):
        state = sx.TensorAttentionState(len(powers) + 1, 2, 2, bound=0.5, tolerance=1e-3, dtype=dtype)
        keys = [torch.full((3, 2), 0.5, dtype=dtype)] * len(powers)
        state.append(keys, [torch.full((3, 2), 10.0**power, dtype=dtype) for power in powers])
        return state.certificate.total

    assert certificate(-102, -220, 85, 62) == math.inf  # the first two multiply to less than any number
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
def test_powers_of_two_bring_coordinates_together_and_change_no_score(order, bound, scale):
    exponents = bounded.balanced_exponents(order, bound, scale)
    assert sum(exponents) == 0
    sizes = [math.log2(bound * scale), *[math.log2(bound)] * (order - 1)]
    at = [size + exponent for size, exponent in zip(sizes, exponents, strict=True)]
    assert max(at) - min(at) < 4.0


def test_outputs_that_rounding_may_spoil_are_refused():
    state = sx.TensorAttentionState(2, 2, 2, bound=1.0, tolerance=1e-6)
    state.append(torch.ones(3, 2), torch.ones(3, 2))
    state.attend(torch.ones(1, 2))
    state._roundings = [10**9]  # as after so many tokens one by one
    with pytest.raises(sx.SeparatrixError, match="was promised"):
        state.attend(torch.ones(1, 2))


def test_scores_too_large_for_the_digits_of_float64_are_refused():
    """Weights from exp(-20) to exp(20) at 1e-6: truncation could be kept, rounding not."""
    with pytest.raises(sx.SeparatrixError, match="digits"):
        sx.TensorAttentionState(2, 1, 1, bound=math.sqrt(20.0), scale=1.0, tolerance=1e-6)


def test_a_state_of_no_heads():
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-3, batch_shape=(0,))
    state.append([torch.ones(0, 3, 2)] * 2, [torch.ones(0, 3, 2)] * 2)
    assert state.attend(torch.ones(0, 4, 2)).shape == (0, 4, 2)


def test_a_bound_whose_power_is_no_number():
    with pytest.raises(sx.SeparatrixError, match="bound"):
        sx.TensorAttentionState(3, 2, 2, bound=1e200, tolerance=1e-3)


@pytest.mark.parametrize("length", [1, 3, 40])
@pytest.mark.parametrize("wants_gradient", [False, True])
def test_tokens_whose_outputs_would_be_refused_for_rounding_are_not_appended(length, wants_gradient):
    query, keys, values = tokens(3, 3, 60, 3, 2)
    state = sx.TensorAttentionState(3, 3, 2, bound=1.0, tolerance=1e-9, dtype=torch.float64)
    state.extend(query[:20], part(keys, 20), part(values, 20))
    before, held = state.tokens, [z.clone() for z in state.states]
    state._roundings[0] = largest_that_is_kept(state)  # as after many tokens one by one; one more is one too many
    values = [x.requires_grad_(wants_gradient) for x in values]
    with pytest.raises(sx.SeparatrixError, match=r"tokens outputs are certain to"):
        state.extend(query[20 : 20 + length], part(keys, 20, 20 + length), part(values, 20, 20 + length))
    assert state.tokens == before
    assert all(torch.equal(a, b) for a, b in zip(state.states, held, strict=True))
    state.attend(query[:1])


def refused(state, roundings, counts):
    try:
        state._refuse_roundings(counts, [1.0, 1.0], roundings)
    except sx.SeparatrixError:
        return True
    return False


def largest_that_is_kept(state):
    """How many roundings the first set's tokens may have gone through, so that the state still attends."""
    low, high = 0, 2**60
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(state, [middle, state._roundings[1]], [20, 20]) else (middle, high)
    return low


SEEN = torch.tensor([[[True, False, True, True, False, True]], [[False, False, False, True, True, True]]])
"""Of six tokens those that each of two sequences sees, whatever the head."""


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, 3.0])
def test_hidden_tokens_may_be_anything_and_are_not_added(order, wrong):
    """Each sequence has the sums of the tokens that it sees, appended alone, and the certificate of their values."""
    query, keys, values = tokens(0, order, 6, 3, 2, (2, 2))
    spoilt = [[x.masked_fill(~SEEN.unsqueeze(-1), wrong) for x in sets] for sets in (keys, values)]
    options = {"bound": 1.0, "tolerance": 1e-4, "dtype": torch.float64}
    for cuts in ([6], [1] * 6, [2, 4]):
        state = sx.TensorAttentionState(order, 3, 2, batch_shape=(2, 2), **options)
        start = 0
        for length in cuts:
            masks = [SEEN[..., start : start + length]] * (order - 1)
            state.append(*(part(sets, start, start + length) for sets in spoilt), key_masks=masks)
            start += length
        for row in range(2):
            alone = sx.TensorAttentionState(order, 3, 2, batch_shape=(2,), **options)
            alone.append(*([x[row][:, SEEN[row, 0]] for x in sets] for sets in (keys, values)))
            torch.testing.assert_close(state.attend(query)[row], alone.attend(query[row]), rtol=0, atol=1e-13)
        exact, _ = reference.tensor_attention(query, keys, values, key_masks=[SEEN.expand(2, 2, 6)] * (order - 1))
        assert (state.attend(query) - exact).abs().max() <= state.certificate.total <= 1e-4
        assert state.tokens == (6,) * (order - 1)
        assert state.largest == tuple(float(v[SEEN.expand(2, 2, 6)].abs().max()) for v in values)


@pytest.mark.parametrize("cuts", [[6], [1] * 6, [2, 3, 1]], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_causal_attention_with_masks_goes_on(cuts, shared):
    """As the causal call with the same masks, another for each set; where nothing is seen yet the output is zero."""
    query, keys, values = tokens(0, 3, 6, 3, 2, (2, 2))
    other = SEEN.roll(1, -1)
    queries = torch.stack([query, -query], -3) if shared else query
    state = sx.TensorAttentionState(3, 3, 2, batch_shape=(2, 2), bound=1.0, tolerance=1e-4, dtype=torch.float64)
    start, found = 0, []
    for length in cuts:
        here = slice(start, start + length)
        sets = (part(x, start, start + length) for x in (keys, values))
        found.append(state.extend(queries[..., here, :], *sets, key_masks=[SEEN[..., here], other[..., here]]))
        start += length
    for s, one in enumerate(queries.unbind(-3) if shared else [query]):
        masks = [SEEN.expand(2, 2, 6), other.expand(2, 2, 6)]
        exact, _ = reference.tensor_attention(one, keys, values, key_masks=masks, is_causal=True)
        ours = torch.cat(found, -2)[:, :, s] if shared else torch.cat(found, -2)
        assert (ours - exact).abs().max() <= state.certificate.total <= 1e-4
        assert not ours[1, :, :3].any()
        assert ours[1, :, 3:].all()


def test_gradients_with_masks():
    """Hidden tokens have none, and a query that sees nothing has none either."""
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


def test_bad_masks_are_named_and_nothing_is_added():
    _, keys, values = tokens(0, 3, 6, 3, 2, (2, 2))
    state = sx.TensorAttentionState(3, 3, 2, batch_shape=(2, 2), bound=1.0, tolerance=1e-2, dtype=torch.float64)
    whole = torch.ones(2, 2, 6, dtype=torch.bool)
    for bad, said in (
        ([whole], "key_masks: expected 2 sets"),
        ([whole, whole.double()], r"key_masks\[1\]: expected a bool tensor, True for a token that is added"),
        ([whole, [True] * 6], r"key_masks\[1\]: expected a bool tensor.*got list"),
        ([whole[..., :5], whole], r"key_masks\[0\]: expected a shape that broadcasts to \(2, 2, 6\)"),
        ([whole[..., :1], whole], r"key_masks\[0\]: expected a shape that broadcasts"),
        ([whole.expand(1, 2, 2, 6), whole], r"key_masks\[0\]: expected a shape that broadcasts"),
        ([whole, torch.ones(3, 1, 6, dtype=torch.bool)], r"key_masks\[1\]: expected a shape that broadcasts"),
        ([whole, whole.to("meta")], r"key_masks\[1\]: expected the state's device cpu"),
    ):
        with pytest.raises(sx.ArgumentError, match=said):
            state.append(keys, values, key_masks=bad)
        with pytest.raises(sx.ArgumentError, match=said):
            state.extend(keys[0], keys, values, key_masks=bad)
    assert state.tokens == (0, 0)


def test_merged_states_with_masks():
    query, keys, values = tokens(0, 3, 6, 3, 2, (2, 2))
    options = {"batch_shape": (2, 2), "bound": 1.0, "tolerance": 1e-4, "dtype": torch.float64}
    whole, *parts = (sx.TensorAttentionState(3, 3, 2, **options) for _ in range(4))
    whole.append(keys, values, key_masks=[SEEN, SEEN])
    for state, here, masked in zip(parts, (slice(0, 3), slice(3, 4), slice(4, 6)), (True, False, True), strict=True):
        masks = [SEEN[..., here]] * 2 if masked else None  # both sequences see the fourth token
        state.append(part(keys, here.start, here.stop), part(values, here.start, here.stop), key_masks=masks)
    first, second, third = parts
    second.merge(first)
    second.merge(third)
    torch.testing.assert_close(second.attend(query), whole.attend(query), rtol=0, atol=1e-13)
    second.load_state_dict(second.state_dict())
