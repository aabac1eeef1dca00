"""The figure of two-hop joins, as SVG: accuracy against CPU time, and with more facts than in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from docs._ext.evidence import EIGHT, LONGER, mean, number
from docs._ext.evidence_figure import STYLE
from separatrix.studies.learning.mechanisms import JOINING_ALIKE

FIGURE = Path(__file__).resolve().parents[1] / "_static" / "joins.svg"
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 240, 48, 44, 70
COLOURS = ("#e69f00", "#d55e00", "#999999", "#0072b2", "#009e73", "#7b52ab", "#56b4e9")
Points = Sequence[tuple[float, float]]


def curves() -> dict[str, list[tuple[float, float]]]:
    """The mean accuracy of each attention on 8 facts, by seconds of CPU time."""
    drawn = {}
    for name in JOINING_ALIKE:
        _, milliseconds = number(EIGHT, f"8 facts: learning rate, milliseconds a step, {name}").split(", ")
        records = [record.split(": ") for record in number(EIGHT, f"8 facts: accuracy by step, {name}").split(", ")]
        drawn[name] = [(int(step) * float(milliseconds) / 1000, float(accuracy)) for step, accuracy in records]
    return drawn


def longer() -> dict[str, list[tuple[float, float]]]:
    """The mean accuracy of each attention trained on 8 facts, by the number of facts of an input."""
    return {
        name: [
            (8.0, mean(EIGHT, f"8 facts: accuracy at equal CPU time, {name}")),
            *((float(count), mean(LONGER, f"accuracy among {count} facts, {name}")) for count in (16, 24, 32)),
        ]
        for name in JOINING_ALIKE
    }


def _panel(panel: int, title: str, axis: str, lines: Mapping[str, Points], ticks: Sequence[int]) -> list[str]:
    start, bottom = LEFT + panel * (WIDTH + GAP), TOP + HEIGHT

    def x(value: float) -> float:
        return start + (value - ticks[0]) / (ticks[-1] - ticks[0]) * WIDTH

    def y(accuracy: float) -> float:
        return bottom - accuracy * HEIGHT

    parts = [f'<text x="{start}" y="24" class="title">{title}</text>']
    for tick in ticks:
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick}</text>')
    parts.append(f'<text x="{start + WIDTH / 2}" y="{bottom + 34}" text-anchor="middle" class="note">{axis}</text>')
    for accuracy in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path class="grid" d="M{start} {y(accuracy):.1f}h{WIDTH}"/>')
        parts.append(f'<text x="{start - 8}" y="{y(accuracy) + 4:.1f}" text-anchor="end">{accuracy:g}</text>')
    for colour, points in zip(COLOURS, lines.values(), strict=True):
        path = "L".join(f"{x(value):.1f} {y(accuracy):.1f}" for value, accuracy in points)
        parts.append(f'<path class="bar" stroke="{colour}" d="M{path}"/>')
    return parts


def svg() -> str:
    """Two panels that share their lines, one for each attention, with a legend at the right."""
    width, height = LEFT + 2 * (WIDTH + GAP) + 190, TOP + HEIGHT + 70
    against_time = curves()
    last = max(points[-1][0] for points in against_time.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="Accuracy on two-hop joins against CPU time and among more facts">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_panel(0, "8 facts, accuracy", "CPU seconds of training", against_time, range(0, int(last) + 5, 4)),
        *_panel(1, "Trained on 8 facts", "facts of an input", longer(), (8, 16, 24, 32)),
    ]
    for row, (name, colour) in enumerate(zip(JOINING_ALIKE, COLOURS, strict=True)):
        place, y = LEFT + 2 * (WIDTH + GAP) - 30, TOP + 20 + 24 * row
        parts.append(f'<path class="bar" stroke="{colour}" d="M{place} {y}h22"/>')
        parts.append(f'<text x="{place + 30}" y="{y + 4}">{name.removesuffix(", both norms")}</text>')
    note = "Means of three seeds; each attention has the best of the same three learning rates."
    parts.append(f'<text x="{LEFT}" y="{height - 10}" class="note">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])
