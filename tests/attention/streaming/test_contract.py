"""The attention contract for the state of a token stream."""

from __future__ import annotations

import torch

import separatrix as sx
from tests.contracts.attention_contract import AttentionContract


def in_batch(tensors, batch):
    return [x.expand(*batch, *x.shape[-2:]) for x in tensors]


class TestState(AttentionContract):
    """Tokens are appended in two parts, or one by one between the queries of causal calls.

    The leading dimensions of a state are fixed, so that inputs are broadcast to them here.
    """

    error = 1e-5

    def attend(
        self, query, keys, values, *, scale=None, key_masks=None, is_causal=False, query_offset=0, enable_gqa=False
    ):
        if enable_gqa:
            group = query.shape[-3] // keys[0].shape[-3]
            keys, values = ([x.repeat_interleave(group, -3) for x in sets] for sets in (keys, values))
        batch = torch.broadcast_shapes(*(x.shape[:-2] for x in (query, *keys, *values)))
        (query,), keys, values = in_batch([query], batch), in_batch(keys, batch), in_batch(values, batch)
        state = sx.TensorAttentionState(
            len(keys) + 1,
            query.shape[-1],
            values[0].shape[-1],
            bound=1.0,
            tolerance=self.error,
            scale=scale,
            batch_shape=batch,
            dtype=query.dtype,
        )
        masks = [None] * len(keys) if key_masks is None else key_masks

        def append(starts, stops):
            """Append the tokens from `starts[m]` to `stops[m]` of each set m."""
            parts = [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
            state.append(
                [key[..., part, :] for key, part in zip(keys, parts, strict=True)],
                [value[..., part, :] for value, part in zip(values, parts, strict=True)],
                key_masks=[None if mask is None else mask[..., part] for mask, part in zip(masks, parts, strict=True)],
            )

        lengths, nothing = [key.shape[-2] for key in keys], [0] * len(keys)
        if not is_causal:
            halves = [length // 2 for length in lengths]
            append(nothing, halves)
            append(halves, lengths)
            return state.attend(query), None
        outputs, seen = [], nothing
        for i in range(query.shape[-2]):
            reached = [min(max(i + query_offset + 1, 0), length) for length in lengths]
            append(seen, reached)
            seen = reached
            outputs.append(state.attend(query[..., i : i + 1, :]))
        return torch.cat(outputs, -2), None


class TestExtendedState(TestState):
    """Causal calls of equal lengths by `extend`, which appends tokens and attends with their queries in one call."""

    test_causal_with_an_offset = None

    def attend(self, query, keys, values, *, is_causal=False, **options):
        if not is_causal:
            return super().attend(query, keys, values, **options)
        batch = query.shape[:-2]
        sizes = (len(keys) + 1, query.shape[-1], values[0].shape[-1])
        state = sx.TensorAttentionState(*sizes, bound=1.0, tolerance=self.error, batch_shape=batch, dtype=query.dtype)
        parts = (slice(0, 3), slice(3, None))
        return torch.cat([state.extend(*_tokens(query, keys, values, part)) for part in parts], -2), None


def _tokens(query, keys, values, part):
    return query[..., part, :], [key[..., part, :] for key in keys], [value[..., part, :] for value in values]
