r"""Attention sinks, prefixes that are attended in both directions, and windows with lookahead.

By position, query i attends key j of a set with the window w if j is in (i + offset - w, i + offset]. Three arguments
of `tensor_attention` change this:

- `lookahead` = a moves the upper end: (i + offset - w, i + offset + a] is the window w + a at the offset offset + a.
- `prefix` = p: the queries at the positions below p attend all keys below p, and the others attend as before. So the
  queries are split into two calls, of which the first is not causal and takes the first p keys. An exported program, in
  which lengths are symbols, makes both calls with all queries and selects from the results.
- `sinks` = s: the first s keys are not subject to the lower end of a window. The keys of a set are then the disjoint
  union of the first s and of the others in the window, and the tuples are the disjoint union of the products of such
  parts, 2^m of them for m sets with a window. Each product is a call, and results are merged by their log-sum-exp,

      out = sum_c exp(lse_c - lse) out_c,        lse = log sum_c exp(lse_c).

No call visits a tuple that another one visits, so the cost is proportional to the number of tuples that are attended.
Every output is a convex combination of outputs of the calls, whose rounding errors are not amplified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arguments import check_arguments
from separatrix.attention.distinct_tuples import attend_distinct
from separatrix.checks import flag, whole
from separatrix.errors import ArgumentError

LONGEST = 1 << 30
"""A window that contains all keys of a sequence whose length is not known yet."""
Attend = Callable[..., tuple[Tensor, Tensor]]
"""Takes query, keys, values and `CallOptions`, and returns the output and the log-sum-exp."""


@dataclass(frozen=True)
class Places:
    """The arguments of a call that change which tuples are attended, other than the causal mask, windows and masks.

    Attributes:
        lookahead: The number of later keys in a window.
        sinks: The number of first keys that are attended even outside the window.
        prefix: The number of first positions that attend each other in both directions.
        distinct: Whether only tuples of pairwise different positions are attended.
    """

    lookahead: int = 0
    sinks: int = 0
    prefix: int = 0
    distinct: bool = False

    def __post_init__(self) -> None:
        for name in ("lookahead", "sinks", "prefix"):
            whole(name, getattr(self, name), low=0)
        flag("distinct", self.distinct)

    @property
    def keeps_certificates(self) -> bool:
        """Whether every output is the output of a single call without `places`, and so has that call's certificate."""
        return not (self.sinks or self.distinct)

    def check(self, is_causal: bool, windows: int | Sequence[int | None] | None) -> None:
        """Raise an `ArgumentError` for an argument that has no effect on the call, or contradicts it."""
        entries = windows if isinstance(windows, (list, tuple)) else [windows]
        for name in ("lookahead", "sinks"):
            if getattr(self, name) and all(window is None for window in entries):
                raise ArgumentError(name, expected="0 for a call without windows", got=getattr(self, name))
        if self.lookahead and is_causal:
            raise ArgumentError("lookahead", expected="0 for a causal call", got=self.lookahead)
        if self.prefix and not is_causal:
            raise ArgumentError("prefix", expected="0 for a call that is not causal", got=self.prefix)


def attend_places(
    attend: Attend,
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    places: Places,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """The output (..., L_q, d_v) and the log-sum-exp (..., L_q) of a call with `places`, computed by calls without
    `places`.

    `attend` is attention without `places`; the tensors and options are those of `tensor_attention`.
    """
    given = check_arguments(query, keys, values, **options)
    places.check(given.is_causal, given.windows)
    length, scoring = query.shape[-2], {"scale": given.scale, "enable_gqa": given.enable_gqa}
    windows = [None if window is None else window + places.lookahead for window in given.windows]
    sets = [_KeySet(*entry) for entry in zip(given.keys, given.values, given.key_masks, windows, strict=True)]
    is_symbol = places.prefix > 0 and not isinstance(length, int)
    first = min(max(places.prefix - given.query_offset, 0), length) if places.prefix and not is_symbol else 0
    results = []
    if first or is_symbol:
        prefix = [key_set.narrowed(places.prefix)._replace(window=None) for key_set in sets]
        within = query if is_symbol else query[..., :first, :]
        results.append(_attend_sets(attend, within, prefix, places.distinct, **scoring))
    if first < length or not first:
        later, offset = query[..., first:, :], given.query_offset + places.lookahead + first
        positions = {"is_causal": given.is_causal, "query_offset": offset}
        parts = [[key_set] for key_set in sets]
        if places.sinks:
            # Windows that contain all earlier keys act as the causal mask, but do not require sets of equal lengths. A
            # window is a number, also in an exported program, where lengths are symbols.
            last = given.query_offset + places.lookahead + length
            everything = max(last, 1) if isinstance(last, int) else LONGEST
            if given.is_causal:
                sets = [key_set if key_set.window else key_set._replace(window=everything) for key_set in sets]
            positions["is_causal"] = False
            parts = [_parts(key_set, places.sinks, everything) for key_set in sets]
        products = [
            _attend_sets(attend, later, chosen, places.distinct, **positions, **scoring) for chosen in product(*parts)
        ]
        results.append(merged(products))
    if len(results) == 1:
        return results[0]
    if is_symbol:
        (prefix_out, prefix_lse), (out, lse) = results
        inside = torch.arange(length, device=query.device) + given.query_offset < places.prefix
        return torch.where(inside.unsqueeze(-1), prefix_out, out), torch.where(inside, prefix_lse, lse)
    return torch.cat([out for out, _ in results], -2), torch.cat([lse for _, lse in results], -1)


class _KeySet(NamedTuple):
    """The keys of a set, or of a part of a set, with their values, mask and window."""

    key: Tensor
    value: Tensor
    mask: Tensor | None
    window: int | None

    def narrowed(self, count: int) -> _KeySet:
        """The first `count` keys.

        In an exported program the length is a symbol, and whether a slice is contiguous would be a condition on the
        length. There the keys are gathered by index, and masked where the sequence is shorter than `count`.
        """
        length = self.key.shape[-2]
        if isinstance(length, int):
            mask = None if self.mask is None else self.mask[..., :count]
            return self._replace(key=self.key[..., :count, :], value=self.value[..., :count, :], mask=mask)
        places = torch.arange(count, device=self.key.device)
        index, mask = places.clamp(max=length - 1), places < length
        if self.mask is not None:
            mask = mask & self.mask.index_select(-1, index)
        return self._replace(key=self.key.index_select(-2, index), value=self.value.index_select(-2, index), mask=mask)

    def without(self, count: int) -> _KeySet:
        """The set with the first `count` keys masked, so that positions do not change."""
        later = torch.arange(self.key.shape[-2], device=self.key.device) >= count
        return self._replace(mask=later if self.mask is None else self.mask & later)


def _parts(key_set: _KeySet, sinks: int, everything: int) -> list[_KeySet]:
    """The first keys of a set, and its other keys in the window; only the set if its window contains all keys."""
    if key_set.window is None or key_set.window >= everything or key_set.key.shape[-2] == 0:
        return [key_set]
    return [key_set.narrowed(sinks)._replace(window=everything), key_set.without(sinks)]


def _attend_sets(
    attend: Attend, query: Tensor, sets: Sequence[_KeySet], distinct: bool, **options: Any
) -> tuple[Tensor, Tensor]:
    keys, values, masks, windows = (list(column) for column in zip(*sets, strict=True))
    options |= {"key_masks": masks, "windows": windows}
    if distinct:
        return attend_distinct(attend, query, keys, values, **options)
    return attend(query, keys, values, **options)


def merged(results: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The output and the log-sum-exp of all tuples, from the outputs and log-sum-exps of disjoint sets of tuples."""
    if len(results) == 1:
        return results[0]
    dtype = results[0][0].dtype
    lses = torch.stack([lse for _, lse in results])
    empty = lses.isneginf().all(0)
    lses = lses.masked_fill(empty, 0.0)
    lse = lses.logsumexp(0)
    weights = (lses - lse).exp().unsqueeze(-1)
    out = sum(weight * part.to(weight.dtype) for weight, (part, _) in zip(weights, results, strict=True))
    return out.to(dtype), lse.masked_fill(empty, -torch.inf)
