"""Equation (4) of Wang, Wei, Hsu and Lee: the two objectives along the paper's run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, ORANGE, Drawing, Value, figure


@drawing
def two_objectives(found: Sequence[Found]) -> Drawing:
    """Equation (4): the population loss under either objective along the paper's run."""
    result: Any = next(one.result for one in found if "mean of the loss" in one.result)
    drawn = figure("step", "loss", log_x=True, log_y=True)
    step = result["step"].tolist()
    columns: dict[str, list[Value]] = {"step": step}
    for name, colour in (("mean of the loss", BLUE), ("loss of the mean", ORANGE)):
        loss = result[name]["loss"].tolist()
        drawn.add_trace(curve(name, step, loss, colour, mode="lines"))
        columns[name] = loss
    last = [result[name]["last"] for name in ("mean of the loss", "loss of the mean")]
    text = (
        "Along the paper's run the mean of the loss over encodings, which training minimises, stays above the loss of "
        f"the mean output; they end at {last[0]:.5f} and {last[1]:.5f}."
    )
    return Drawing(drawn, text, columns)
