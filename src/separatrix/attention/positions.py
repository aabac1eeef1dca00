"""Which keys a query may attend by its position: all keys, those up to it, or those in a window that ends at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Range = tuple[int, int]


@dataclass(frozen=True)
class Positions:
    """Which keys a query may attend: j_m in (i + offset - windows[m], i + offset], both ends only where they apply."""

    is_causal: bool
    offset: int
    windows: tuple[int | None, ...]

    @property
    def has_window(self) -> bool:
        """Whether some key set has a window."""
        return any(window is not None for window in self.windows)

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
        """Which of the given keys of set m each query of a range may attend, as a bool (queries, keys)."""
        return self.allowed_to(m, torch.arange(*queries, device=keys.device), keys)

    def allowed_to(self, m: int, queries: Tensor, keys: Tensor) -> Tensor:
        """Which of the given keys of set m each of the given queries may attend, as a bool (queries, keys)."""
        here = queries.unsqueeze(-1) + self.offset
        window = self.windows[m]
        if window is not None:
            return (keys <= here) & (keys > here - window)
        return keys <= here if self.is_causal else torch.ones_like(keys <= here)
