"""A checked call of order-k attention, with all heads in one dimension: the input of every algorithm.

A call is checked and flattened once, at the boundary; `batch` restores the leading dimensions of its results. Its
`Positions` say which keys a query may attend: all keys, the keys up to its own position, or the keys in a window that
ends there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import torch
from torch import Tensor

from separatrix.attention.arguments import CallArguments, CallOptions, check_arguments, tensor_name

Range = tuple[int, int]


@dataclass(frozen=True)
class Positions:
    """The positions of the keys that a query may attend: j_m in (i + offset - windows[m], i + offset].

    The lower end applies to sets with a window, and the upper end also to causal calls.
    """

    is_causal: bool
    offset: int
    windows: tuple[int | None, ...]

    @property
    def has_window(self) -> bool:
        """Whether some key set has a window."""
        return self.windows != (None,) * len(self.windows)

    def visible(self, m: int, query: int, length: int) -> Range:
        """The keys of set m that the query at index `query` may attend, as a half-open range."""
        window = self.windows[m]
        here = query + self.offset
        stop = min(length, here + 1) if self.is_causal or window is not None else length
        start = 0 if window is None else min(length, max(0, here - window + 1))
        return start, max(start, stop)

    def reaches(self, lengths: Sequence[int]) -> list[int]:
        """The largest number of keys of each set that a query may attend, for key sets of these lengths.

        >>> Positions(True, 0, (None, 3)).reaches([10, 10])
        [10, 3]
        """
        pairs = zip(self.windows, lengths, strict=True)
        return [length if window is None else min(window, length) for window, length in pairs]

    def contested(self, m: int, queries: Range, keys: Range) -> Range:
        """The shortest range that contains every key of set m which at least one of these queries may not attend."""
        start, stop = keys
        first, last = queries[0] + self.offset, queries[1] - 1 + self.offset
        window = self.windows[m]
        seen_from = start if window is None else max(start, last - window + 1)
        seen_to = min(stop, first + 1) if self.is_causal or window is not None else stop
        if seen_from >= seen_to:
            return keys
        if seen_from > start:
            return start, (stop if seen_to < stop else seen_from)
        return seen_to, stop

    def allowed(self, m: int, queries: Range, keys: Tensor) -> Tensor:
        """A mask (queries, keys), True where a query of a range may attend a given key of set m."""
        return self.allowed_to(m, torch.arange(*queries, device=keys.device), keys)

    def allowed_to(self, m: int, queries: Tensor, keys: Tensor) -> Tensor:
        """A mask (queries, keys), True where a given query may attend a given key of set m."""
        here = queries.unsqueeze(-1) + self.offset
        window = self.windows[m]
        if window is not None:
            return (keys <= here) & (keys > here - window)
        return keys <= here if self.is_causal else torch.ones_like(keys <= here)


@dataclass(frozen=True)
class Call:
    """Order-k attention over H heads.

    Attributes:
        query: The queries, (H, L_q, d).
        keys: The key sets, (H, L_m, d) each; or (H / s, L_m, d), where s heads of queries, one after the other, share a
            head of keys and values.
        values: The value sets, (H, L_m, d_v) each; or (H / s, L_m, d_v), as for the keys.
        masks: For each set a mask, (H, L_m), True for keys that may be attended, or no masks at all; or (H / s, L_m),
            if all query heads that share keys may attend to the same keys.
        positions: Which keys a query may attend by its position.
        scale: The factor of every score.
        batch: The leading dimensions of the user's tensors, whose product is H; None if there is only one.
        copies: The largest number of heads that share one of the user's tensors by broadcasting.
        kept: Values that a backend caches between its passes over the call; a new call made by `replace` starts without
            them.
    """

    query: Tensor
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]
    positions: Positions
    scale: float
    batch: tuple[int, ...] | None = None
    copies: int = 1
    kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def order(self) -> int:
        return len(self.keys) + 1

    @property
    def key_lengths(self) -> tuple[int, ...]:
        return tuple([key.shape[1] for key in self.keys])

    @property
    def shared(self) -> int:
        """The number of consecutive query heads that share a head of keys and values."""
        return self.query.shape[0] // max(self.keys[0].shape[0], 1) or 1

    @property
    def computed_in(self) -> torch.dtype:
        """The type of the arithmetic: float32 for half types."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.query, *self.keys, *self.values)

    def name(self, tensor: int) -> str:
        """The name of an entry of `tensors`, for messages."""
        return tensor_name(tensor, len(self.keys))

    @property
    def mask_of_each(self) -> tuple[Tensor | None, ...]:
        """A mask or None for each key set."""
        return self.masks or (None,) * len(self.keys)

    @property
    def is_empty(self) -> bool:
        """Whether the output is empty, or there are no keys to attend to."""
        return 0 in (*self.query.shape, self.values[0].shape[2], *self.key_lengths)

    @property
    def wants_gradient(self) -> bool:
        """Whether autograd records the computation."""
        return torch.is_grad_enabled() and any([x.requires_grad for x in self.tensors])

    def shaped(self, x: Tensor) -> Tensor:
        """A result (H, ...) with the leading dimensions of the user's tensors."""
        return x if self.batch is None or len(self.batch) == 1 else x.reshape(*self.batch, *x.shape[1:])

    def counts(self) -> list[Tensor]:
        """The number of unmasked keys of each set, (H,)."""
        if self.masks:
            return [mask.sum(-1) for mask in self.masks]
        heads = self.query.shape[0]
        return [self.query.new_full((heads,), length, dtype=torch.int64) for length in self.key_lengths]

    def to(self, dtype: torch.dtype) -> Call:
        """The call with all its tensors converted to a dtype."""
        if all(x.dtype == dtype for x in self.tensors):
            return self
        keys, values = (tuple(x.to(dtype) for x in sets) for sets in (self.keys, self.values))
        return replace(self, query=self.query.to(dtype), keys=keys, values=values)

    def spread(self) -> Call:
        """The call with keys, values and masks for every query head; shared tensors are copied."""
        heads = self.query.shape[0]
        if self.shared == 1:
            return self
        keys, values, masks = (
            tuple(x if x.shape[0] == heads else x.repeat_interleave(self.shared, 0) for x in sets)
            for sets in (self.keys, self.values, self.masks)
        )
        return replace(self, keys=keys, values=values, masks=masks)

    def widened(self) -> Call:
        """The call with one key head for each query head, in the dtype of its arithmetic, and with masked keys and
        values replaced by zeros, even if they are NaN.
        """
        call = self.spread().to(self.computed_in)
        if not call.masks:
            return call
        keys, values = (
            tuple(x.masked_fill(~mask.unsqueeze(-1), 0.0) for x, mask in zip(sets, call.masks, strict=True))
            for sets in (call.keys, call.values)
        )
        return replace(call, keys=keys, values=values)

    def of_heads(self, heads: Range) -> Call:
        """The part of the call that belongs to a range of query heads, each with its own keys, without a batch."""
        part, index = slice(*heads), torch.arange(*heads, device=self.query.device) // self.shared
        keys, values, masks = (
            tuple(x[part] if len(x) == len(self.query) else x[index] for x in sets)
            for sets in (self.keys, self.values, self.masks)
        )
        return Call(self.query[part], keys, values, masks, self.positions, self.scale)


Gradients = tuple[Tensor, list[Tensor], list[Tensor]]
"""The gradients of the query, of the keys and of the values of a call."""
Changes = tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]
"""The tangents of the query, of the keys and of the values of a call, in forward mode."""


def check_call(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    **options: Unpack[CallOptions],
) -> Call:
    """The call for these arguments of `tensor_attention`; an `ArgumentError` if one is invalid."""
    return flattened(check_arguments(query, keys, values, **options))


def flattened(given: CallArguments) -> Call:
    """The call for checked arguments: all its tensors are broadcast and have one leading dimension."""
    return grouped(given).spread()


def grouped(given: CallArguments) -> Call:
    """The call for checked arguments, in which query heads still share keys and values (``enable_gqa``).

    All other leading dimensions are broadcast and flattened into one. Tensors whose heads are contiguous in memory are
    not copied.
    """
    heads = given.query.shape[-3] if given.enable_gqa else 1
    shared = max(heads // given.keys[0].shape[-3], 1) if given.enable_gqa else 1
    sets = [x if heads else x[..., :0, :, :] for x in (*given.keys, *given.values)]
    batch = given.query.shape[:-2]
    shapes = [_times(x.shape[:-2], shared) for x in sets]
    if any([shape != batch for shape in shapes]):
        batch = torch.broadcast_shapes(batch, *shapes)  # imports sympy, which takes half a second
    count, own = math.prod(batch), (*batch[:-1], batch[-1] // shared) if shared > 1 else batch

    def flat(x: Tensor, batch: Sequence[int]) -> Tensor:
        whole = x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:])
        return whole if len(batch) == 1 else whole.reshape(math.prod(batch), *x.shape[-2:])

    masks = []
    if any(mask is not None for mask in given.key_masks):
        of_queries = any(mask is not None and mask.dim() > 1 and mask.shape[-2] > 1 for mask in given.key_masks)
        among = batch if of_queries else own
        for mask, key in zip(given.key_masks, given.keys, strict=True):
            mask = key.new_ones(key.shape[-2], dtype=torch.bool) if mask is None else mask
            masks.append(mask.expand(*among, -1).reshape(math.prod(among), key.shape[-2]))
    copies = max([count // max(math.prod(x.shape[:-2]), 1) for x in given.tensors]) if count else 1
    keys, values = sets[: len(given.keys)], sets[len(given.keys) :]
    return Call(
        flat(given.query, batch),
        tuple([flat(x, own) for x in keys]),
        tuple([flat(x, own) for x in values]),
        tuple(masks),
        Positions(given.is_causal, given.query_offset, given.windows),
        given.scale,
        tuple(batch),
        copies,
    )


def _times(batch: Sequence[int], shared: int) -> Sequence[int]:
    """The leading dimensions of keys, with the number of query heads as the last."""
    return batch if shared == 1 else torch.Size([*batch[:-1], batch[-1] * shared])
