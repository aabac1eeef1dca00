"""Figure 8 of Wang, Wei, Hsu and Lee: W and V of the small run during training."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import drawing
from separatrix.report.drawings.selection.figures_1_to_7 import stacked
from separatrix.report.tables import Results, Row, columns_of
from separatrix.report.theme import Drawing


@drawing
def weight_heat_maps(results: Results) -> Drawing:
    """Figures 3 and 8: the weights W and V at four steps of training."""
    result = results[0].result
    steps = list(result["step"])
    drawn = stacked("column: tokens, then encodings", "row of W", "row of V", 0.66, 760)
    drawn.update_layout(margin={"t": 20, "b": 110})
    drawn.update_yaxes(autorange="reversed")
    rows: list[Row] = []
    for at, step in enumerate(steps):
        for name, axis, top, share in (("W", "y", 1.0, 0.64), ("V", "y2", 0.31, 0.32)):
            z = result[name][at]
            size, height = z.shape[1], z.shape[0]
            # Each step has its own colour scale: at the end the diagonal is thirty times the initial entries.
            limit = float(np.abs(z).max())
            heat = go.Heatmap(
                x=list(range(size)),
                y=list(range(height)),
                z=np.round(z, 4).tolist(),
                zmin=-limit,
                zmax=limit,
                colorscale="RdBu",
                visible=at == len(steps) - 1,
                colorbar={"len": share, "y": top, "yanchor": "top", "thickness": 12},
                yaxis=axis,
                hovertemplate=name + "[%{y}, %{x}] = %{z:.3f}<extra></extra>",
            )
            drawn.add_trace(heat)
            rows += [
                {"step": step, "matrix": name, "row": i, "column": j, "value": round(float(z[i, j]), 5)}
                for i, j in np.ndindex(z.shape)
            ]
    marks = [
        {
            "label": f"{step:,}",
            "method": "restyle",
            "args": ["visible", [index // 2 == at for index in range(2 * len(steps))]],
        }
        for at, step in enumerate(steps)
    ]
    slider = {"active": len(steps) - 1, "currentvalue": {"prefix": "step "}, "pad": {"t": 46}, "steps": marks}
    drawn.update_layout(sliders=[slider])
    text = (
        f"Heat maps of W and V at steps {', '.join(f'{step:,}' for step in steps)}: noise at first, and in the end a "
        "diagonal in the position block of W and in the token block of V, and nothing else."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))
