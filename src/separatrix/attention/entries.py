"""The largest entries of a tensor, found piece by piece, with an error for NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from separatrix.errors import ArgumentError

Piece = tuple[int, int]
_ENTRIES = 1 << 20
"""How many entries of a tensor are looked through at once: enough for all threads."""


def pieces(length: int, size: int) -> Iterator[Piece]:
    """Ranges of at most `size` that cover the first `length` whole numbers."""
    for start in range(0, length, size):
        yield start, min(start + size, length)


def extremes(x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The least and the largest (H, d) over tokens (H, L, d) that may be attended, in float64; NaN if one is NaN.

    Where there are none, +inf and -inf.
    """
    heads, length, d = x.shape
    least = x.new_full((heads, d), math.inf, dtype=torch.float64)
    most = -least
    whole = length - length % 64
    piece = max(_ENTRIES // max(64 * heads * d, 1), 1) * 64
    parts = [*pieces(whole, piece), *([(whole, length)] if whole < length else [])]
    for start, stop in parts:
        part = x[:, start:stop]
        low = high = part
        if mask is not None:
            hidden = ~mask[:, start:stop].unsqueeze(-1)
            low, high = part.masked_fill(hidden, math.inf), part.masked_fill(hidden, -math.inf)
        if (stop - start) % 64 == 0:  # 64 tokens side by side: a reduction over long rows is many times faster
            low, high = (y.reshape(heads, -1, 64 * d) for y in (low, high))
        low, high = (y.reshape(heads, -1, d) for y in (low.amin(1), high.amax(1)))
        least, most = torch.minimum(least, low.amin(1)), torch.maximum(most, high.amax(1))
    return least, most


def finite_extremes(name: str, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """`extremes`, with 0 where there are no tokens, and an error for NaN or infinity."""
    least, most = extremes(x, mask)
    nothing = least > most
    least, most = least.masked_fill(nothing, 0.0), most.masked_fill(nothing, 0.0)
    if not (torch.isfinite(least) & torch.isfinite(most)).all():
        raise ArgumentError(
            name,
            expected="finite entries (an error bound must hold)",
            got="NaN or infinity",
            hypothesis="the bounded entries of Definition 1.2 (Alman and Song)",
        )
    return least, most


def largest_magnitudes(name: str, x: Tensor, mask: Tensor | None, shift: Tensor | None = None) -> Tensor:
    """max |x - shift| over the tokens that may be attended, (H, d) in float64; an error for NaN or infinity there."""
    least, most = finite_extremes(name, x, mask)
    if shift is not None:
        # Where no token may be attended the shift is 0 as well.
        least, most = least - shift, most - shift
    return torch.maximum(least.abs(), most.abs())
