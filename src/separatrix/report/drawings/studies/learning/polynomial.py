"""Training by the polynomial method and with exact attention of bounded scores."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.drawings.studies.learning.runs import seed_means
from separatrix.report.tables import Results, one_row_per_entry
from separatrix.report.theme import BLUE, ORANGE
from separatrix.studies.learning.polynomial import kind_of

_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "star")
_METHODS = ("exact", "polynomial")


@Curves(
    series=[
        Curve(f"mean {method}", f"{{label}}, {method}", colour, dash=dash, symbol=lambda row: row["symbol"], size=8)
        for method, colour, dash in zip(_METHODS, (BLUE, ORANGE), ("solid", "dot"), strict=True)
    ],
    by=("label",),
    x=Axis("steps of training", "step"),
    y=Axis("held-out loss, nats"),
    height=400,
    height_per_trace=15,
)
def learning_roads(results: Results) -> Chart:
    """Losses during training, by exact attention of bounded scores and by the polynomial method."""
    groups = {kind: [cell for cell in results if kind_of(cell) == kind] for kind in map(kind_of, results)}
    means = [
        {
            "label": f"{task}, {attention.removeprefix('order 3, ')}",
            "symbol": _SYMBOLS[index % len(_SYMBOLS)],
            "step": cells[0].result["step"],
            **{f"mean {method}": seed_means(cells, f"{method}_loss") for method in _METHODS},
        }
        for index, ((task, attention), cells) in enumerate(groups.items())
    ]
    seeds = [
        {"task": task, "attention": attention, "seed": cell.seed, "step": cell.result["step"]}
        | {method: cell.result[f"{method}_loss"] for method in _METHODS}
        for (task, attention), cells in groups.items()
        for cell in cells
    ]
    apart = max(abs(cell.result["exact_loss"][-1] - cell.result["polynomial_loss"][-1]) for cell in results)
    text = (
        "The loss of bounded models against steps, trained with exact attention of their scores and by the polynomial "
        f"method from the same weights on the same inputs: at the end at most {apart:.2g} nats apart in a seed."
    )
    rows = one_row_per_entry(means, "step", *(f"mean {method}" for method in _METHODS))
    return rows, text, one_row_per_entry(seeds, "step", *_METHODS)
