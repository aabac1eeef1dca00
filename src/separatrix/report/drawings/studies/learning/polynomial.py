"""Training by the polynomial method and with exact attention of bounded scores."""

from __future__ import annotations

from statistics import fmean

from separatrix.report.charts import curve, drawing
from separatrix.report.tables import Results, Row, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, ORANGE, Drawing, figure
from separatrix.studies.learning.polynomial import kind_of


@drawing
def learning_roads(results: Results) -> Drawing:
    """Losses during training, by exact attention of bounded scores and by the polynomial method."""
    kinds = list(dict.fromkeys(map(kind_of, results)))
    drawn = figure("steps of training", "held-out loss, nats", height=400 + 30 * len(kinds))
    rows: list[Row] = []
    apart = 0.0
    for index, kind in enumerate(kinds):
        cells = [cell for cell in results if kind_of(cell) == kind]
        steps = list(cells[0].result["step"])
        for road, colour, dash in (("exact", BLUE, "solid"), ("polynomial", ORANGE, "dot")):
            losses = [fmean(values) for values in zip(*(cell.result[f"{road}_loss"] for cell in cells), strict=True)]
            marker = {"symbol": ("circle", "square", "diamond", "cross", "x", "star")[index % 6], "size": 8}
            label = f"{kind[0]}, {kind[1].removeprefix('order 3, ')}, {road}"
            drawn.add_trace(curve(label, steps, losses, colour, dash=dash, marker=marker))
        for cell in cells:
            apart = max(apart, abs(cell.result["exact_loss"][-1] - cell.result["polynomial_loss"][-1]))
            curves = {road: cell.result[f"{road}_loss"] for road in ("exact", "polynomial")}
            run = {"task": kind[0], "attention": kind[1], "seed": cell.seed, "step": steps, **curves}
            rows += one_row_per_entry([run], "step", *curves)
    text = (
        "The loss of bounded models against steps, trained with exact attention of their scores and by the polynomial "
        f"method from the same weights on the same inputs: at the end at most {apart:.2g} nats apart in a seed."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))
