"""Checks packed calls: each sequence is checked as a separate call, and the verdicts are combined."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.checker.verdict import Verification
from separatrix.errors import ArgumentError

Sets = Tensor | Sequence[Tensor]


def check_packed(
    check: Callable[..., Verification],
    output: Tensor,
    bounds: Tensor,
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    lse: Tensor,
    cu_seqlens: Tensor | Sequence[Tensor],
    query_offsets: Sequence[int] | Tensor | None,
    queries: int,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    **options: Any,
) -> Verification:
    """The verdict on a packed call; at least one query of every sequence is recomputed.

    Args:
        check: Checks one sequence, as `verification.check` does.
        output, bounds, lse: The results of the call.
        query, keys, values, key_masks: The tensors of the call.
        cu_seqlens, query_offsets, query_offset: As in the call.
        queries: The total number of queries to recompute, unless there are more sequences.
        **options: Further arguments of `check`.
    """
    sets, beside = ([x] if isinstance(x, Tensor) else list(x) for x in (keys, values))
    masks = [key_masks] * len(sets) if key_masks is None or isinstance(key_masks, Tensor) else list(key_masks)
    given = [cu_seqlens] * (1 + len(sets)) if isinstance(cu_seqlens, Tensor) else list(cu_seqlens)
    lengths = [query.shape[-2], *(key.shape[-2] for key in sets)]
    if len(given) != len(lengths):
        expected = f"one tensor, or {len(lengths)}: one for the query and one for each key set"
        raise ArgumentError("cu_seqlens", expected=expected, got=str(len(given)))
    ranges = [_ranges(f"cu_seqlens[{m}]", x, length) for m, (x, length) in enumerate(zip(given, lengths, strict=True))]
    count = len(ranges[0])
    offsets = [query_offset] * count if query_offsets is None else [int(offset) for offset in query_offsets]
    if len(offsets) != count or any(len(of_set) != count for of_set in ranges):
        got = [len(offsets), *map(len, ranges)]
        raise ArgumentError("cu_seqlens", expected="as many sequences and offsets in every entry", got=str(got))
    bounds = bounds.expand(lse.shape)

    def verdicts() -> Iterator[Verification]:
        for sequence, (start, stop) in enumerate(ranges[0]):
            if start == stop:
                continue
            parts = [of_set[sequence] for of_set in ranges[1:]]
            verdict = check(
                _cut(output, start, stop, -2),
                _cut(bounds, start, stop, -1),
                _cut(query, start, stop, -2),
                [_cut(key, *part, -2) for key, part in zip(sets, parts, strict=True)],
                [_cut(value, *part, -2) for value, part in zip(beside, parts, strict=True)],
                lse=_cut(lse, start, stop, -1),
                key_masks=[
                    None if mask is None else _cut(mask, *part, -1) for mask, part in zip(masks, parts, strict=True)
                ],
                query_offset=offsets[sequence],
                queries=max(1, queries // count),
                **options,
            )
            *batch, position = verdict.worst or (0,)
            yield replace(verdict, worst=(*batch, start + position))

    every = list(verdicts())
    if not every:
        return Verification(True, 0.0, (), "output", 0.0, 0.0, 0)
    worst = max(every, key=lambda verdict: (not verdict.held, verdict.margin))
    return replace(worst, queries=sum(verdict.queries for verdict in every))


def _cut(x: Tensor, start: int, stop: int, axis: int) -> Tensor:
    """The entries of x from start to stop; a dimension of size 1 is broadcast over all tokens."""
    return x if x.shape[axis] == 1 and stop != 1 else x.narrow(axis, start, stop - start)


def _ranges(name: str, cu_seqlens: object, length: int) -> list[tuple[int, int]]:
    """Where each sequence starts and stops among `length` tokens."""
    whole = isinstance(cu_seqlens, Tensor) and cu_seqlens.dtype in (torch.int32, torch.int64) and cu_seqlens.dim() == 1
    stops: list[int] = cu_seqlens.tolist() if whole else []  # type: ignore[attr-defined]
    if not stops or stops[0] != 0 or stops[-1] != length or sorted(stops) != stops:
        expected = f"a tensor of cumulative lengths, int32 or int64, which increase from 0 to {length}"
        raise ArgumentError(name, expected=expected, got=str(stops) if whole else type(cu_seqlens).__name__)
    return list(pairwise(stops))
