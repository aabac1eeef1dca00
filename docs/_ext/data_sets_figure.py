"""The figure of the data sets D0 and D1 of Definition D.1, as SVG: their tokens as rows of coloured entries."""

from __future__ import annotations

import math
from pathlib import Path

from separatrix.separation.datasets import self_attention_input

FIGURE = Path(__file__).resolve().parents[1] / "_static" / "data-sets.svg"
TOKENS, WIDTH, SPECIAL = 12, 6, 7
SIGNAL, CLASS, LAST = {"D0": 0.05, "D1": 1.2}, 0.2, 0.8
CELL, LEFT, TOP, GAP = 30, 120, 62, 190
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:15px}"
    ".number{font-size:11px}.entry{stroke:#bbb;stroke-width:0.6}.frame{fill:none;stroke:#d55e00;stroke-width:2.5}"
)


def _panel(name: str, left: int) -> list[str]:
    a = SIGNAL[name]
    entries = self_attention_input(TOKENS, WIDTH, a, CLASS, LAST, SPECIAL).A1 / math.sqrt(math.log(TOKENS))
    parts = [f'<text x="{left}" y="24" class="title">D<tspan dy="4" font-size="11">{name[1]}</tspan></text>']
    headings = {0.5: f"a{'₀₁'[int(name[1])]}", WIDTH / 2: "b, by class", WIDTH - 0.5: "c"}
    for column, text in headings.items():
        parts.append(f'<text x="{left + column * CELL:g}" y="{TOP - 8}" text-anchor="middle">{text}</text>')
    for row, values in enumerate(entries.tolist()):
        y = TOP + row * CELL
        for column, value in enumerate(values):
            x, shade = left + column * CELL, min(value, 1.2) / 1.2
            colour = "#ffffff" if value == 0 else f"rgb({200 - 170 * shade:.0f},{222 - 110 * shade:.0f},240)"
            parts.append(f'<rect class="entry" x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour}"/>')
            if value:
                parts.append(
                    f'<text class="number" x="{x + CELL / 2:g}" y="{y + 20}" text-anchor="middle">{value:g}</text>'
                )
    at = TOP + SPECIAL * CELL
    return [*parts, f'<rect class="frame" x="{left}" y="{at}" width="{WIDTH * CELL}" height="{CELL}"/>']


def svg() -> str:
    """Both data sets side by side; the special token is framed."""
    second = LEFT + WIDTH * CELL + GAP
    width, height = second + WIDTH * CELL + 20, TOP + TOKENS * CELL + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="The tokens of the data sets D0 and D1">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_panel("D0", LEFT),
        *_panel("D1", second),
    ]
    y = TOP + SPECIAL * CELL + 20
    parts.append(f'<text x="{LEFT - 12}" y="{y}" text-anchor="end">special token</text>')
    parts.append(f'<text x="{LEFT - 12}" y="{TOP + 20}" text-anchor="end">token 0</text>')
    note = f"n = {TOKENS} tokens of width d = {WIDTH}, in units of the square root of log n."
    parts.append(f'<text x="{LEFT}" y="{height - 10}">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])
