"""Tokens that are appended to a state: which are refused, and the effect of masks."""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from tests.attention.streaming.drawn_tokens import SEEN, part, tokens


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


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, 3.0])
def test_hidden_tokens_may_be_anything_and_are_not_added(order, wrong):
    """Each sequence has the sums of its visible tokens, appended alone, and the certificate of their values."""
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
