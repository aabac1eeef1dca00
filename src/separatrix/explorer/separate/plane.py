"""The map of the tab Separate: success over two parameters at once, and where the reader's setting lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.explorer.fields import choice
from separatrix.explorer.separate.figures import SYMBOLS, grid
from separatrix.explorer.separate.view import make
from separatrix.report.theme import SCALE, Drawing, Value, figure

NONE = "none"
ACROSS = choice(
    "across",
    "and upwards",
    "A second parameter makes a map of the curve: success over both at once.",
    "beyond the paper, which changes one at a time",
    {NONE: "nothing", **SYMBOLS},
    default=NONE,
    shared=True,
)
_CELLS = 21
"""So many values of each parameter at most: with more of them a map takes longer than a reader waits."""


def is_map(along: str, across: str) -> bool:
    """Whether the two parameters make a map; one and the same does not."""
    return across not in (NONE, along)


def plane(values: Mapping[str, Any], along: str, across: str) -> Drawing:
    """Success with softmax over two parameters; all others are the setting's."""
    x, y = (_some(grid(values, axis)) for axis in (along, across))
    z = [[make({**values, along: a, across: b}).success_probability().success for a in x] for b in y]
    logs = [axis in ("n", "m") for axis in (along, across)]
    drawn = figure(SYMBOLS[along], SYMBOLS[across], log_x=logs[0], log_y=logs[1], height=440)
    bar = {"title": {"text": "success"}, "thickness": 12}
    drawn.add_trace(
        go.Heatmap(
            x=[float(one) for one in x],
            y=[float(one) for one in y],
            z=z,
            zmin=0,
            zmax=1,
            colorscale=SCALE,
            colorbar=bar,
            hovertemplate=f"{SYMBOLS[along]} = %{{x:.4g}}, {SYMBOLS[across]} = %{{y:.4g}}: %{{z:.3f}}<extra></extra>",
        )
    )
    here = {"symbol": "star", "size": 15, "color": "white", "line": {"color": "black", "width": 1.5}}
    drawn.add_scatter(
        name="you are here",
        x=[float(values[along])],
        y=[float(values[across])],
        mode="markers",
        marker=here,
        showlegend=False,
    )
    columns: dict[str, list[Value]] = {
        along: [str(a) for _ in y for a in x],
        across: [str(b) for b in y for _ in x],
        "success": [one for row in z for one in row],
    }
    most = max(max(row) for row in z)
    share = sum(one >= 0.9 for row in z for one in row) / (len(x) * len(y))
    text = (
        f"The probability of success with softmax over {SYMBOLS[along]} and {SYMBOLS[across]}: at most {most:.3g}, and "
        f"0.9 or more on {share:.0%} of the map. The star is your setting."
    )
    return Drawing(drawn, text, columns)


def _some(found: Sequence[Any]) -> list[Any]:
    """Evenly chosen among the values, the first and the last with them."""
    if len(found) <= _CELLS:
        return list(found)
    return [found[round(i * (len(found) - 1) / (_CELLS - 1))] for i in range(_CELLS)]
