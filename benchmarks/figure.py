"""The figure of time against length, as SVG, from the rows of `lengths`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from benchmarks import Row

COLOURS = {
    "exact": "#1f5fa8",
    "near-linear": "#1b8a5a",
    "fused attention, in blocks": "#b0562b",
    "fused attention, materialised": "#d9a441",
    "einsum with a mask": "#8a6bbf",
}
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 460, 300, 62, 44, 46, 30
X_ENDS, Y_ENDS = (10.0, 2e6), (1e-5, 10.0)


def _x(n: float) -> float:
    low, high = map(math.log10, X_ENDS)
    return LEFT + (math.log10(n) - low) / (high - low) * (WIDTH - LEFT - 16)


def _y(seconds: float) -> float:
    low, high = map(math.log10, Y_ENDS)
    return TOP + (high - math.log10(seconds)) / (high - low) * (HEIGHT - TOP - BOTTOM)


def curves(rows: Sequence[Row], kind: str) -> dict[str, list[tuple[int, float]]]:
    """The points (n, seconds) of each curve of a kind, "causal" or "not causal"."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        match = re.fullmatch(rf"(.+), {kind}, n = (\d+)", row.name)
        if match and match[1] in COLOURS:
            found.setdefault(match[1], []).append((int(match[2]), row.measured))
    return found


def crossover(exact: list[tuple[int, float]], near_linear: list[tuple[int, float]]) -> float | None:
    """The length from which near-linear attention is faster, by linear interpolation between the points, or None.

    >>> round(crossover([(10, 1.0), (1000, 100.0)], [(10, 10.0), (1000, 10.0)]))
    100
    """
    other = dict(near_linear)
    both = [(n, math.log(took / other[n])) for n, took in exact if n in other]
    for (a, before), (b, after) in pairwise(both):
        if before < 0 <= after:
            return math.exp(math.log(a) + (math.log(b) - math.log(a)) * before / (before - after))
    return None


def _panel(rows: Sequence[Row], kind: str, at: float) -> list[str]:
    drawn = curves(rows, kind)
    parts = [f'<g transform="translate({at:.0f} 0)">']
    parts.append(f'<text x="{LEFT}" y="24" class="title">Third-order attention, {kind}</text>')
    for power in range(1, 7):
        x = _x(10.0**power)
        label = f'10<tspan dy="-5" font-size="9">{power}</tspan>'
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{label}</text>')
    for power, label in (
        (-5, "10 µs"),
        (-4, "0.1 ms"),
        (-3, "1 ms"),
        (-2, "10 ms"),
        (-1, "0.1 s"),
        (0, "1 s"),
        (1, "10 s"),
    ):
        y = _y(10.0**power)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - 16}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">length n</text>')
    for name, points in drawn.items():
        line = " ".join(f"{_x(n):.1f},{_y(took):.1f}" for n, took in points)
        parts.append(f'<polyline class="curve" points="{line}" stroke="{COLOURS[name]}"/>')
        dots = (f'<circle cx="{_x(n):.1f}" cy="{_y(took):.1f}" r="2.4" fill="{COLOURS[name]}"/>' for n, took in points)
        parts += dots
    if (n := crossover(drawn.get("exact", []), drawn.get("near-linear", []))) is not None:
        parts.append(f'<path class="cross" d="M{_x(n):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        low = HEIGHT - BOTTOM - 8  # below all curves
        parts.append(f'<text x="{_x(n) + 5:.1f}" y="{low}" class="note">near-linear from n = {n:.0f}</text>')
    return [*parts, "</g>"]


def svg(rows: Sequence[Row], machine: str) -> str:
    """Two panels side by side, not causal and causal, with a legend and the machine's name below."""
    total = 2 * WIDTH + GAP
    style = (
        "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:14px}.note{fill:#1b8a5a}"
        ".grid{stroke:#ddd;fill:none}.curve{fill:none;stroke-width:2}"
        ".cross{stroke:#1b8a5a;stroke-dasharray:3 3;fill:none}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT + 52}" role="img" '
        'aria-label="Time of third-order attention against the length of the sequence">',
        f"<style>{style}</style>",
        f'<rect width="{total}" height="{HEIGHT + 52}" fill="#fff"/>',
        *_panel(rows, "not causal", 0),
        *_panel(rows, "causal", WIDTH + GAP),
    ]
    x = 20.0
    for name, colour in COLOURS.items():
        parts.append(f'<path class="curve" stroke="{colour}" d="M{x:.0f} {HEIGHT + 12}h22"/>')
        parts.append(f'<text x="{x + 28:.0f}" y="{HEIGHT + 16}">{name}</text>')
        x += 46 + 6.4 * len(name)
    parts.append(f'<text x="20" y="{HEIGHT + 40}">One head, d = 8, float32, tolerance 1e-3. {machine}</text>')
    return "\n".join([*parts, "</svg>", ""])
