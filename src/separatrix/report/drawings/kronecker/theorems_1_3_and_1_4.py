"""Theorems 1.3 and 1.4 of Alman and Song: the phase diagram of the exponents."""

from __future__ import annotations

from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Map, curve, drawing
from separatrix.report.tables import Results, Row, columns_of, one_row_per_entry, rows_of
from separatrix.report.theme import SCALE, THEME, Drawing

_MAP = Map(
    z="exponent",
    x=Axis("B / (ln n)<sup>1/k</sup>", "ratio"),
    y=Axis("log<sub>2</sub> n", "log2_n"),
    hover="n = 2^%{y}<br>B = %{x:.2f} (ln n)^(1/k)<br>exponent %{z:.2f}",
    look={"coloraxis": "coloraxis"},
)


def phase_grid(results: Results) -> dict[int, list[Row]]:
    """The rows of the phase diagram by order, with n ascending."""
    rows = [row for row in rows_of(results) if "polynomial_exponent" in row]
    orders = sorted({row["order"] for row in rows})
    return {k: sorted((row for row in rows if row["order"] == k), key=lambda row: int(row["log2_n"])) for k in orders}


@drawing
def threshold_phase_diagram(results: Results) -> Drawing:
    """Theorems 1.3 and 1.4: the exponent of the cheaper algorithm over B / (ln n)^(1/k) and n, one panel per order."""
    grid = phase_grid(results)
    drawn = make_subplots(rows=1, cols=len(grid), shared_yaxes=True, subplot_titles=[f"order {k}" for k in grid])
    drawn.update_layout(
        template=THEME,
        height=480,
        margin={"t": 60},
        coloraxis={"colorscale": SCALE, "colorbar": {"title": "log<sub>n</sub> flops"}},
    )
    table: list[Row] = []
    for column, cells in enumerate(grid.values(), start=1):
        named = [{**row, "ratio": row["ratios"]} for row in cells]
        rows = [
            {**row, "exponent": min(row["polynomial_exponent"], row["exact_exponent"])}
            for row in one_row_per_entry(named, "ratio", "degree", "polynomial_exponent")
        ]
        table += rows
        drawn.add_trace(_MAP.trace(rows), row=1, col=column)
        border = curve(
            "exact attention is cheaper to the right", [row["border"] for row in cells],
            [row["log2_n"] for row in cells], "#ff4d4d", mode="lines", showlegend=column == 1, legendgroup="border",
        )  # fmt: skip
        drawn.add_trace(border, row=1, col=column)
        drawn.update_xaxes(range=[0.02, cells[0]["ratios"][-1]], row=1, col=column)
    # There is one title under the middle panel, because three titles would overlap on a phone.
    drawn.update_xaxes(title_text=_MAP.x.title, row=1, col=(len(grid) + 1) // 2)
    drawn.update_yaxes(title_text=_MAP.y.title, row=1, col=1)
    borders = ", ".join(f"{cells[-1]['border']:.2f} at order {k}" for k, cells in grid.items())
    text = (
        "The exponent of n in the cost of the cheaper algorithm, over B / (ln n)^(1/k) and n: it rises with B until "
        f"exact attention takes over, at n = 2^{table[-1]['log2_n']} from {borders}."
    )
    names = ("order", "log2_n", "ratio", "degree", "polynomial_exponent", "exact_exponent")
    return Drawing(drawn, text, columns_of(table, *names))
