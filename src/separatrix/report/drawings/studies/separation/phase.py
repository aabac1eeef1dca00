"""Phase diagrams of exact success: over (a0, a1) and over (n, d), with the level curve."""

from __future__ import annotations

from itertools import product
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.report.charts import curve, drawing
from separatrix.report.tables import Results, Row, columns_of
from separatrix.report.theme import SCALE, THEME, Drawing
from separatrix.studies.separation.phase import HIGH, LARGEST_A0, LEAST_A1, SETTINGS

_EDGE, _OTHER, _RANGE = "#ff4d4d", "#ffb347", "#f781bf"


def _panels(results: Results) -> go.Figure:
    titles = [cell.parameters["setting"].replace(", ", ",<br>") for cell in results]
    drawn = make_subplots(rows=1, cols=len(results), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03)
    bar = {"title": "success", "thickness": 12}
    axis = {"colorscale": SCALE, "cmin": 0, "cmax": 1, "colorbar": bar}
    drawn.update_layout(template=THEME, height=500, margin={"t": 60}, coloraxis=axis)
    drawn.update_annotations(font_size=12)
    return drawn


@drawing
def phase_over_signal(results: Results) -> Drawing:
    """Success over a0 and a1 at the paper's sizes; the least a1 for one half, and the region of the theorems."""
    drawn = _panels(results)
    rows: list[Row] = []
    for at, cell in enumerate(results, start=1):
        name, a0, a1 = (cell.parameters[key] for key in ("setting", "a0", "a1"))
        success, edge, level = cell.result["success"], cell.result["edge"], cell.parameters["level"]
        z = [[column[k] for column in success] for k in range(len(a1))]
        hover = "a0 = %{x}<br>a1 = %{y}<br>success %{z:.3f}<extra></extra>"
        drawn.add_trace(go.Heatmap(x=a0, y=a1, z=z, coloraxis="coloraxis", hovertemplate=hover), row=1, col=at)
        options: dict[str, Any] = {"mode": "lines", "showlegend": at == 1}
        label = f"least a<sub>1</sub> for success {level:g}"
        drawn.add_trace(curve(label, a0, edge, _EDGE, legendgroup="edge", **options), row=1, col=at)
        right, low = LARGEST_A0[name], LEAST_A1[name]
        drawn.add_trace(
            curve(
                "the theorem: left of and above", [0, right, right], [low, low, a1[-1]], _RANGE,
                dash="dash", legendgroup="range", **options,
            ),
            row=1, col=at,
        )  # fmt: skip
        rows += [
            {"setting": name, "a0": x, "a1": y, "success": success[i][k], "least_a1": edge[i]}
            for (i, x), (k, y) in product(enumerate(a0), enumerate(a1))
        ]
    drawn.update_xaxes(range=[0, results[0].parameters["a0"][-1]], dtick=0.4)
    drawn.update_xaxes(title_text="a<sub>0</sub>", row=1, col=(len(results) + 1) // 2)
    drawn.update_yaxes(title_text="a<sub>1</sub>", row=1, col=1)
    edges = ", ".join(f"{cell.result['edge'][0]:g} in {cell.parameters['setting']}" for cell in results)
    text = (
        "Exact success over a0 and a1: it hardly depends on a0 until well beyond 0.1, then it vanishes; it reaches one "
        f"half at a1 = {edges}; in self-attention it falls again at large a1."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))


@drawing
def phase_over_size(results: Results) -> Drawing:
    """Success over n and the number of classes with the paper's m; the least d for two levels."""
    high = [cell for cell in results if cell.parameters["level"] == HIGH]
    drawn = _panels(high)
    rows: list[Row] = []
    for at, cell in enumerate(high, start=1):
        name, log2_n, powers = (cell.parameters[key] for key in ("setting", "log2_n", "log2_classes"))
        success = cell.result["success"]
        z = [[column[k] for column in success] for k in range(len(powers))]
        hover = "n = 2^%{x}<br>classes 2^%{y}<br>success %{z:.3f}<extra></extra>"
        drawn.add_trace(go.Heatmap(x=log2_n, y=powers, z=z, coloraxis="coloraxis", hovertemplate=hover), row=1, col=at)
        extra = 1 if name == SETTINGS[-1] else 2
        for cell_there in (cell_there for cell_there in results if cell_there.parameters["setting"] == name):
            level = cell_there.parameters["level"]
            at_edge = [None if edge is None else (edge - extra).bit_length() - 1 for edge in cell_there.result["edge"]]
            colour, label = (_EDGE if level == HIGH else _OTHER), f"least d for success {level:g}"
            line = {"mode": "lines", "showlegend": at == 1, "legendgroup": label}
            drawn.add_trace(curve(label, log2_n, at_edge, colour, **line), row=1, col=at)
        rows += [
            {"setting": name, "log2_n": x, "d": 2**y + extra, "success": success[i][k]}
            for (i, x), (k, y) in product(enumerate(log2_n), enumerate(powers))
        ]
    drawn.update_xaxes(range=[high[0].parameters["log2_n"][0], high[0].parameters["log2_n"][-1]])
    drawn.update_xaxes(title_text="log<sub>2</sub> n", row=1, col=(len(high) + 1) // 2)
    drawn.update_yaxes(title_text="log<sub>2</sub> of the number of classes", row=1, col=1)
    text = (
        "Exact success over n = 2^6 to 2^100 and the number of classes, 1 to 2^9: it falls slowly with n and rises "
        "steeply with the classes, and the least number for 0.9 moves by one power of two at most."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))
