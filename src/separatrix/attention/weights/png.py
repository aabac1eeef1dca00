"""Converts the weights of a map to colours, and encodes them as PNG."""

from __future__ import annotations

import struct
import zlib

import torch
from torch import Tensor

DECADES = 4
"""The colours cover at most this many powers of ten; smaller weights have the lowest colour."""
VIRIDIS = (
    (68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142),
    (31, 158, 137), (53, 183, 121), (109, 205, 89), (180, 222, 44), (253, 231, 37),
)  # fmt: skip
"""The colour map viridis of Smith and van der Walt at evenly spaced values, from low to high."""


def scale_of(cells: Tensor) -> tuple[float, float]:
    """The weights at both ends of the colour bar: the smallest, but at least 10^-4 of the largest; and the largest.

    >>> scale_of(torch.tensor([[0.5, 0.0], [1e-9, 0.1]], dtype=torch.float64))
    (5e-05, 0.5)
    """
    most = float(cells.max())
    there = cells[cells > 0]
    least = float(there.min()) if len(there) else most
    return max(least, most * 10.0**-DECADES), most


def coloured(cells: Tensor) -> Tensor:
    """The colours of cells on a logarithmic scale, (rows, columns, 4) of red, green, blue and opacity, 0 to 255.

    A cell of weight 0 is transparent: none of its pairs may be attended.
    """
    low, high = scale_of(cells)
    if not high > 0:
        return torch.zeros(*cells.shape, 4, dtype=torch.uint8)
    span = torch.tensor(high).log() - torch.tensor(low).log()
    share = torch.ones_like(cells)
    if span > 0:
        share = ((cells.clamp(min=low) / low).log() / span).clamp(0.0, 1.0)
    anchors = torch.tensor(VIRIDIS, dtype=torch.float64)
    along = share.to(torch.float64) * (len(VIRIDIS) - 1)
    below = along.floor().long().clamp(max=len(VIRIDIS) - 2)
    part = (along - below).unsqueeze(-1)
    colours = (1 - part) * anchors[below] + part * anchors[below + 1]
    opacity = (cells > 0).unsqueeze(-1) * 255.0
    return torch.cat([colours, opacity.to(torch.float64)], -1).round().to(torch.uint8)


def png(pixels: Tensor) -> bytes:
    """A picture (rows, columns, 4) of bytes as a PNG file.

    >>> png(torch.zeros(1, 1, 4, dtype=torch.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    rows, columns, _ = pixels.shape
    lines = torch.nn.functional.pad(pixels.reshape(rows, -1), (1, 0))  # each line begins with its filter: none
    head = struct.pack(">2I5B", columns, rows, 8, 6, 0, 0, 0)
    data = zlib.compress(bytes(lines.flatten().tolist()), 9)
    chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
