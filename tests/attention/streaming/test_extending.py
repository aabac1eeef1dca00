"""Appending tokens and attending in one call, against the causal call."""

from __future__ import annotations

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.streaming.ledger import StreamLedger, refuse_roundings
from tests.attention.streaming.drawn_tokens import SEEN, part, tokens


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_decoding_equals_the_causal_call(order, batch):
    """Decoding token by token, or after a prefill in chunks, equals the causal call within the certificate."""
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


@pytest.mark.parametrize("length", [1, 3, 40])
@pytest.mark.parametrize("wants_gradient", [False, True])
def test_tokens_whose_outputs_would_be_refused_for_rounding_are_not_appended(length, wants_gradient):
    query, keys, values = tokens(3, 3, 60, 3, 2)
    state = sx.TensorAttentionState(3, 3, 2, bound=1.0, tolerance=1e-9, dtype=torch.float64)
    state.extend(query[:20], part(keys, 20), part(values, 20))
    before, held = state.tokens, [z.clone() for z in state.states]
    state.ledger.roundings[0] = largest_that_is_kept(state)  # as after many single tokens; one more exceeds the limit
    values = [x.requires_grad_(wants_gradient) for x in values]
    with pytest.raises(sx.SeparatrixError, match=r"tokens the error bound .* exceeds the tolerance"):
        state.extend(query[20 : 20 + length], part(keys, 20, 20 + length), part(values, 20, 20 + length))
    assert state.tokens == before
    assert all(torch.equal(a, b) for a, b in zip(state.states, held, strict=True))
    state.attend(query[:1])


def refused(state, roundings, counts):
    try:
        refuse_roundings(state.plan, StreamLedger(counts, [1.0, 1.0], roundings))
    except sx.SeparatrixError:
        return True
    return False


def largest_that_is_kept(state):
    """The largest number of roundings of the first set's tokens with which the state still attends."""
    low, high = 0, 2**60
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(state, [middle, state.ledger.roundings[1]], [20, 20]) else (middle, high)
    return low


@pytest.mark.parametrize("cuts", [[6], [1] * 6, [2, 3, 1]], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_causal_attention_with_masks_continues(cuts, shared):
    """Outputs equal those of the causal call with the same masks for each set, and are 0 while nothing is visible."""
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
