"""A map of pairs as an SVG picture: the map, the sums along either side, the largest pairs, the scale of the colours.

Text and lines are a grey that is legible on white and on near-black, and the background is transparent.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

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
    lines = torch.nn.functional.pad(pixels.reshape(rows, -1), (1, 0))  # each line begins with its filter type: 0
    head = struct.pack(">2I5B", columns, rows, 8, 6, 0, 0, 0)
    data = zlib.compress(bytes(lines.flatten().tolist()), 9)
    chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


GREY, BLUE = "#7f8794", "#2f7fc1"
_LEFT, _TOP, _SIDE, _BESIDE, _GAP = 58, 110, 320, 56, 6
_RIGHT = _LEFT + _SIDE + _GAP
_LIST = _RIGHT + _BESIDE + 34
_WIDTH, _HEIGHT = 680, 484


def svg(
    query: int,
    cells: Tensor,
    keys_per_cell: tuple[int, int],
    sums: tuple[Tensor, Tensor],
    top: Sequence[tuple[int, int, float]],
) -> str:
    """The picture of a map; the arguments are the attributes of `PairMap`."""
    cells = cells.cpu()
    lengths = len(sums[0]), len(sums[1])
    image = base64.b64encode(png(coloured(cells))).decode()
    words = f"The weights that query {query} gives to {lengths[0]} x {lengths[1]} pairs of keys"
    largest = f"; the largest is {_short(top[0][2])}, of the pair ({top[0][0]}, {top[0][1]})." if top else "."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" '
        f'font-size="12" fill="{GREY}">',
        f"<title>{words}{largest}</title>",
        _text(_LEFT, 20, f"Query {query}: the weights of its pairs of keys", size=15),
        _bars(cells.sum(0), across=True),
        _bars(cells.sum(1), across=False),
        f'<image x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" preserveAspectRatio="none" '
        f'style="image-rendering: pixelated" href="data:image/png;base64,{image}"/>',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="{GREY}"/>',
        *_ticks(lengths),
        _text(_LEFT + _SIDE / 2, _TOP + _SIDE + 34, "key of the second set", anchor="middle"),
        f'<text transform="translate(16 {_TOP + _SIDE / 2}) rotate(-90)" text-anchor="middle">'
        "key of the first set</text>",
        *_rings(lengths, top),
        *_listed(top),
        *_legend(cells, keys_per_cell),
        "</svg>",
    ]
    return "\n".join(parts)


def ticks(length: int) -> list[int]:
    """Axis ticks for keys 0 to length - 1: at most six integers, at steps of 1, 2 or 5 times a power of ten.

    >>> ticks(48), ticks(1), ticks(3)
    ([0, 10, 20, 30, 40], [0], [0, 1, 2])
    """
    step = next(
        digit * 10**power for power in range(20) for digit in (1, 2, 5) if (length - 1) // (digit * 10**power) < 6
    )
    return list(range(0, length, step))


def _place(index: int, length: int) -> float:
    """The pixel coordinate of the middle of a key along a side of the map."""
    return _SIDE * (index + 0.5) / length


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{text}</text>'


def _bars(sums: Tensor, *, across: bool) -> str:
    """The sums along a side as bars, above the map or to its right."""
    count, most = len(sums), float(sums.max()) or 1.0
    width = _SIDE / count
    path = []
    for at, length in enumerate((sums * (_BESIDE / most)).tolist()):
        start, long = at * width, length
        if across:
            path.append(f"M{_LEFT + start:.2f} {_TOP - _GAP}v{-long:.2f}h{width:.2f}v{long:.2f}z")
        else:
            path.append(f"M{_RIGHT} {_TOP + start:.2f}h{long:.2f}v{width:.2f}h{-long:.2f}z")
    return f'<path d="{"".join(path)}" fill="{BLUE}"/>'


def _ticks(lengths: tuple[int, int]) -> list[str]:
    marks, bottom = [], _TOP + _SIDE
    for index in ticks(lengths[1]):
        x = _LEFT + _place(index, lengths[1])
        marks.append(
            f'<path d="M{x:.2f} {bottom}v4" stroke="{GREY}"/>' + _text(x, bottom + 16, str(index), anchor="middle")
        )
    for index in ticks(lengths[0]):
        y = _TOP + _place(index, lengths[0])
        marks.append(
            f'<path d="M{_LEFT} {y:.2f}h-4" stroke="{GREY}"/>' + _text(_LEFT - 7, y + 4, str(index), anchor="end")
        )
    return marks


def _rings(lengths: tuple[int, int], top: Sequence[tuple[int, int, float]]) -> list[str]:
    """A ring around each of the largest pairs, which a map of many pairs would not show."""
    rings = []
    for first, second, weight in top:
        x, y = _LEFT + _place(second, lengths[1]), _TOP + _place(first, lengths[0])
        for colour, width in (("#000000", 3), ("#ffffff", 1.4)):
            rings.append(
                f'<circle cx="{x:.2f}" cy="{y:.2f}" r="5.5" fill="none" stroke="{colour}" stroke-width="{width}">'
                f"<title>({first}, {second}): {_short(weight)}</title></circle>"
            )
    return rings


def _listed(top: Sequence[tuple[int, int, float]]) -> list[str]:
    if not top:
        return [_text(_LIST, _TOP, "The query attends no pair.")]
    most, rest = 12, len(top) - 12
    lines = [_text(_LIST, _TOP - 22, "Largest weights", size=13)]
    for at, (first, second, weight) in enumerate(top[:most]):
        y = _TOP + 19 * at
        lines += [
            _text(_LIST + 70, y, f"({first}, {second})", anchor="end"),
            _text(_LIST + 84, y, _short(weight)),
        ]
    if rest > 0:
        lines.append(_text(_LIST + 84, _TOP + 19 * most, f"and {rest} more"))
    return lines


def _legend(cells: Tensor, keys_per_cell: tuple[int, int]) -> list[str]:
    """The colour bar, with the number of keys per cell."""
    low, high = scale_of(cells)
    y, width = _TOP + _SIDE - 36, 150
    stops = "".join(
        f'<stop offset="{at / (len(VIRIDIS) - 1):.3f}" stop-color="rgb{colour}"/>' for at, colour in enumerate(VIRIDIS)
    )
    above, beside = (_short(float(cells.sum(dim).max())) for dim in (0, 1))
    several = max(keys_per_cell) > 1
    what = f"sum over {keys_per_cell[0]} x {keys_per_cell[1]} keys" if several else "weight"
    return [
        f'<defs><linearGradient id="separatrix-weights">{stops}</linearGradient></defs>',
        _text(_LIST, y - 62, "Bars: sums over the other set,"),
        _text(_LIST, y - 46, f"up to {above} above, {beside} beside"),
        _text(_LIST, y - 10, f"{what}, logarithmic"),
        f'<rect x="{_LIST}" y="{y}" width="{width}" height="12" fill="url(#separatrix-weights)"/>',
        _text(_LIST, y + 28, _short(low)),
        _text(_LIST + width, y + 28, _short(high), anchor="end"),
    ]


def _short(weight: float) -> str:
    """A weight in three digits.

    >>> _short(0.123456), _short(1.5e-7), _short(1.0)
    ('0.123', '1.5e-07', '1')
    """
    return f"{weight:.3g}"
