"""Packed sequences in a layer: cumulative lengths, ids of the sequences of tokens, and jagged nested tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.packed import Lengths, attend_packed, lengths_of_runs, pack
from separatrix.errors import ArgumentError


def is_jagged(x: object) -> bool:
    """Whether x is a nested tensor in the layout `torch.jagged`."""
    return isinstance(x, Tensor) and x.is_nested and x.layout == torch.jagged


def attend_tokens(
    attend: Callable[..., Tensor],
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    options: dict[str, Any],
    cu_seqlens: Lengths | None,
    sequence_ids: Tensor | None,
) -> Tensor:
    """The outputs of the heads, (..., heads, L, head_dim), where tokens attend within their own sequence.

    Args:
        attend: The attention of the layer, which takes q, keys, values and `options`.
        q: The queries of the heads, (..., heads, L, head_dim).
        keys: The keys of each set, (..., key heads, S, head_dim).
        values: The values of each set.
        options: `is_causal`, `query_offset` and `key_masks` of the call.
        cu_seqlens: The cumulative lengths, one tensor or one for queries and one for keys, the same for every entry of
            the batch; or None.
        sequence_ids: The ids of the sequences of all tokens, (..., L); or None.
    """
    if sequence_ids is None:
        if isinstance(cu_seqlens, (list, tuple)):
            if len(cu_seqlens) != 2:
                expected = "one tensor, or two: one for the queries and one for the keys"
                raise ArgumentError("cu_seqlens", expected=expected, got=str(len(cu_seqlens)))
            cu_seqlens = [cu_seqlens[0], *[cu_seqlens[1]] * len(keys)]
        return _attend_packed(attend, q, keys, values, options, cu_seqlens)  # type: ignore[arg-type]
    if cu_seqlens is not None:
        raise ArgumentError("cu_seqlens", expected="None beside sequence_ids", got=type(cu_seqlens).__name__)
    tokens = (*q.shape[:-3], q.shape[-2])
    if not isinstance(sequence_ids, Tensor) or sequence_ids.shape != tokens or keys[0].shape[-2] != q.shape[-2]:
        got = f"shape {tuple(sequence_ids.shape)}" if isinstance(sequence_ids, Tensor) else type(sequence_ids).__name__
        raise ArgumentError("sequence_ids", expected=f"self-attention, and ids of shape {tokens}", got=got)
    masks = options["key_masks"]
    flat_masks = None if masks is None else [mask.movedim(-2, 0).flatten(1) for mask in masks]
    heads: Tensor = _attend_packed(
        attend,
        _one_row(q),
        [_one_row(key) for key in keys],
        [_one_row(value) for value in values],
        {**options, "key_masks": flat_masks},
        lengths_of_runs(sequence_ids),
    )
    rows: Tensor = heads.unflatten(1, tokens)
    return rows.movedim(0, -3)


def _one_row(x: Tensor) -> Tensor:
    """Concatenate the tokens of a batch: from (..., heads, L, head_dim) to (heads, tokens, head_dim)."""
    return x.movedim(-3, 0).flatten(1, -2)


def _attend_packed(
    attend: Callable[..., Tensor],
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    options: dict[str, Any],
    cu_seqlens: Lengths,
) -> Tensor:
    packing = pack(q, keys, values, options["key_masks"], cu_seqlens, options["query_offset"], None)

    def attend_group(group_q: Tensor, *sets: Sequence[Tensor], **places: Any) -> tuple[Tensor, ...]:
        return (attend(group_q, *sets, **{**options, **places}),)

    return attend_packed(packing, attend_group)[0]
