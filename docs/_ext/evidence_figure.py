"""The figure of the evidence, as SVG: the results of each attention at equal compute, with 95% intervals."""

from __future__ import annotations

from pathlib import Path

from docs._ext.evidence import RECALL, TEXT, TRIPLES, number
from separatrix.studies.learning.mechanisms import MECHANISMS

FIGURE = Path(__file__).resolve().parents[1] / "_static" / "evidence.svg"
LEFT, TOP, ROW, PANEL, GAP = 150, 52, 24, 230, 40
PANELS = (
    ("Triples, accuracy", TRIPLES, "accuracy", (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
    ("Recall by pairs, accuracy", RECALL, "accuracy", (0.4, 0.6, 0.8, 1.0)),
    ("Text, loss in nats", TEXT, "loss", (2.3, 2.4, 2.5, 2.6, 2.7)),
)
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:14px}"
    ".note{fill:#666;font-size:11px}.grid{stroke:#ddd;fill:none}.bar{stroke-width:2;fill:none}"
)


def _colour(name: str) -> str:
    return "#1b8a5a" if name.startswith("linear") else "#b0562b" if name.startswith("order 2") else "#1f5fa8"


def _panel(panel: int) -> list[str]:
    title, id, what, ticks = PANELS[panel]
    start, low, high = LEFT + panel * (PANEL + GAP), ticks[0], ticks[-1]

    def x(value: float) -> float:
        """The coordinate of a value; an interval is clipped at the edges."""
        return start + (min(max(value, low), high) - low) / (high - low) * PANEL

    bottom = TOP + ROW * len(MECHANISMS)
    parts = [f'<text x="{start}" y="24" class="title">{title}</text>']
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{x(tick):.1f} {TOP - 12}V{bottom}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for row, name in enumerate(MECHANISMS):
        y = TOP + row * ROW + ROW // 2 - 6
        middle, least, most = number(id, f"{what} at equal compute, {name}")
        if not low <= middle <= high:
            raise ValueError(f"{title}, {name}: {middle} is beyond the axis from {low} to {high}")
        parts.append(f'<path class="bar" stroke="{_colour(name)}" d="M{x(least):.1f} {y}H{x(most):.1f}"/>')
        parts.append(f'<circle cx="{x(middle):.1f}" cy="{y}" r="4" fill="{_colour(name)}"/>')
    return parts


def svg() -> str:
    """Three panels that share their rows, one for each attention."""
    width, height = LEFT + len(PANELS) * (PANEL + GAP), TOP + ROW * len(MECHANISMS) + 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="What each attention has learned at equal compute">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for row, name in enumerate(MECHANISMS):
        y = TOP + row * ROW + ROW // 2 - 2
        parts.append(f'<text x="{LEFT - 14}" y="{y}" text-anchor="end">{name}</text>')
    for panel in range(len(PANELS)):
        parts += _panel(panel)
    note = "Means of three seeds at equal parameters and compute, with Student's 95% intervals, cut off at the edges."
    parts.append(f'<text x="{LEFT}" y="{height - 8}" class="note">{note} For the loss, lower is better.</text>')
    return "\n".join([*parts, "</svg>", ""])
