"""Training by the polynomial method beside training with exact attention of bounded scores."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, ORANGE, Drawing, Value, figure
from separatrix.studies.learning.polynomial import kind_of


@drawing
def learning_roads(found: Sequence[Found]) -> Drawing:
    """Losses on the way, by exact attention of bounded scores and by the polynomial method."""
    kinds = list(dict.fromkeys(map(kind_of, found)))
    drawn = figure("steps of training", "held-out loss, nats", height=400 + 30 * len(kinds))
    columns: dict[str, list[Value]] = {
        name: [] for name in ("task", "attention", "seed", "step", "exact", "polynomial")
    }
    apart = 0.0
    for index, kind in enumerate(kinds):
        some = [one for one in found if kind_of(one) == kind]
        steps = list(some[0].result["step"])
        for road, colour, dash in (("exact", BLUE, "solid"), ("polynomial", ORANGE, "dot")):
            losses = [fmean(values) for values in zip(*(one.result[f"{road}_loss"] for one in some), strict=True)]
            marker = {"symbol": ("circle", "square", "diamond", "cross", "x", "star")[index % 6], "size": 8}
            label = f"{kind[0]}, {kind[1].removeprefix('order 3, ')}, {road}"
            drawn.add_trace(curve(label, steps, losses, colour, dash=dash, marker=marker))
        for one in some:
            apart = max(apart, abs(one.result["exact_loss"][-1] - one.result["polynomial_loss"][-1]))
            for row in zip(steps, one.result["exact_loss"], one.result["polynomial_loss"], strict=True):
                for name, value in zip(columns, (*kind, one.seed, *row), strict=True):
                    columns[name].append(value)
    text = (
        "The loss of bounded models against steps, trained with exact attention of their scores and by the polynomial "
        f"method from the same weights on the same inputs: at the end at most {apart:.2g} nats apart in a seed."
    )
    return Drawing(drawn, text, columns)
