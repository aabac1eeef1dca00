"""Phase diagrams of exact success: over (a0, a1) and over (n, d), with the line where it reaches a level."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import SCALE, THEME, Drawing, Value
from separatrix.studies.separation.phase import HIGH, LARGEST_A0, LEAST_A1, SETTINGS

_EDGE, _OTHER, _RANGE = "#ff4d4d", "#ffb347", "#f781bf"


def _panels(found: Sequence[Found]) -> go.Figure:
    titles = [one.parameters["setting"].replace(", ", ",<br>") for one in found]
    drawn = make_subplots(rows=1, cols=len(found), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03)
    bar = {"title": "success", "thickness": 12}
    axis = {"colorscale": SCALE, "cmin": 0, "cmax": 1, "colorbar": bar}
    drawn.update_layout(template=THEME, height=500, margin={"t": 60}, coloraxis=axis)
    drawn.update_annotations(font_size=12)
    return drawn


@drawing
def phase_over_signal(found: Sequence[Found]) -> Drawing:
    """Success over a0 and a1 at the paper's sizes; the least a1 for one half; where the theorems speak."""
    drawn = _panels(found)
    columns: dict[str, list[Value]] = {name: [] for name in ("setting", "a0", "a1", "success", "least_a1")}
    for at, one in enumerate(found, start=1):
        name, a0, a1 = (one.parameters[key] for key in ("setting", "a0", "a1"))
        success, edge, level = one.result["success"], one.result["edge"], one.parameters["level"]
        z = [[column[k] for column in success] for k in range(len(a1))]
        hover = "a0 = %{x}<br>a1 = %{y}<br>success %{z:.3f}<extra></extra>"
        drawn.add_trace(go.Heatmap(x=a0, y=a1, z=z, coloraxis="coloraxis", hovertemplate=hover), row=1, col=at)
        shown: dict[str, Any] = {"mode": "lines", "showlegend": at == 1}
        label = f"least a1 for success {level:g}"
        drawn.add_trace(curve(label, a0, edge, _EDGE, legendgroup="edge", **shown), row=1, col=at)
        right, low = LARGEST_A0[name], LEAST_A1[name]
        drawn.add_trace(
            curve(
                "the theorem: left of and above", [0, right, right], [low, low, a1[-1]], _RANGE,
                dash="dash", legendgroup="range", **shown,
            ),
            row=1, col=at,
        )  # fmt: skip
        for (i, x), (k, y) in product(enumerate(a0), enumerate(a1)):
            for column, value in zip(columns.values(), (name, x, y, success[i][k], edge[i]), strict=True):
                column.append(value)
    drawn.update_xaxes(range=[0, found[0].parameters["a0"][-1]], dtick=0.4)
    drawn.update_xaxes(title_text="a<sub>0</sub>", row=1, col=(len(found) + 1) // 2)
    drawn.update_yaxes(title_text="a<sub>1</sub>", row=1, col=1)
    edges = ", ".join(f"{one.result['edge'][0]:g} in {one.parameters['setting']}" for one in found)
    text = (
        "Exact success over a0 and a1: it hardly depends on a0 until well beyond 0.1, then it vanishes; it reaches one "
        "half at a1 = "
        f"{edges}; in self-attention it falls again at large a1."
    )
    return Drawing(drawn, text, columns)


@drawing
def phase_over_size(found: Sequence[Found]) -> Drawing:
    """Success over n and the number of classes with the paper's m; the least d for two levels."""
    shown = [one for one in found if one.parameters["level"] == HIGH]
    drawn = _panels(shown)
    columns: dict[str, list[Value]] = {name: [] for name in ("setting", "log2_n", "d", "success")}
    for at, one in enumerate(shown, start=1):
        name, log2_n, powers = (one.parameters[key] for key in ("setting", "log2_n", "log2_classes"))
        success = one.result["success"]
        z = [[column[k] for column in success] for k in range(len(powers))]
        hover = "n = 2^%{x}<br>classes 2^%{y}<br>success %{z:.3f}<extra></extra>"
        drawn.add_trace(go.Heatmap(x=log2_n, y=powers, z=z, coloraxis="coloraxis", hovertemplate=hover), row=1, col=at)
        extra = 1 if name == SETTINGS[-1] else 2
        for other in (other for other in found if other.parameters["setting"] == name):
            level = other.parameters["level"]
            at_edge = [None if edge is None else (edge - extra).bit_length() - 1 for edge in other.result["edge"]]
            colour, label = (_EDGE if level == HIGH else _OTHER), f"least d for success {level:g}"
            line = {"mode": "lines", "showlegend": at == 1, "legendgroup": label}
            drawn.add_trace(curve(label, log2_n, at_edge, colour, **line), row=1, col=at)
        for (i, x), (k, y) in product(enumerate(log2_n), enumerate(powers)):
            for column, value in zip(columns.values(), (name, x, 2**y + extra, success[i][k]), strict=True):
                column.append(value)
    drawn.update_xaxes(range=[shown[0].parameters["log2_n"][0], shown[0].parameters["log2_n"][-1]])
    drawn.update_xaxes(title_text="log<sub>2</sub> n", row=1, col=(len(shown) + 1) // 2)
    drawn.update_yaxes(title_text="log<sub>2</sub> of the number of classes", row=1, col=1)
    text = (
        "Exact success over n = 2^6 to 2^100 and the number of classes, 1 to 2^9: it falls slowly with n and rises "
        "steeply with the classes, and the least number for 0.9 moves by one power of two at most."
    )
    return Drawing(drawn, text, columns)
