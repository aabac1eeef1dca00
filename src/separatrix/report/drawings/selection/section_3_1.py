"""Section 3.1 of Wang, Wei, Hsu and Lee: the end of training."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import COLOURS, GREY, Drawing, Value, figure


@drawing
def population_tail(found: Sequence[Found]) -> Drawing:
    """Section 3.1: the population loss and the attention off the subset against eta t."""
    drawn = figure("time, eta t", "loss, and 1 - q s", log_x=True, log_y=True, height=460)
    columns: dict[str, list[Value]] = {name: [] for name in ("T", "q", "d", "eta t", "loss", "1 - q s")}
    for one, colour in zip(found, COLOURS, strict=False):
        sizes = f"T = {one.parameters['T']}, q = {one.parameters['q']}, d = {one.parameters['d']}"
        tau, loss, w = (one.result[name].tolist() for name in ("tau", "loss", "w"))
        drawn.add_trace(curve(f"{sizes}, loss", tau, loss, colour, mode="lines"))
        drawn.add_trace(curve(f"{sizes}, 1 - q s", tau, w, colour, mode="lines", dash="dot"))
        late = [time for time in tau if time > tau[-1] / 1e3]
        tail = [(one.parameters["T"] - 1) / (4 * time) for time in late]
        name = "(T - 1) / (4 eta t)"
        drawn.add_trace(
            curve(name, late, tail, GREY, mode="lines", dash="dash", legendgroup=name, showlegend=one is found[0])
        )
        for values in zip(tau, loss, w, strict=True):
            for column, value in zip(columns.values(), (*(one.parameters[x] for x in "Tqd"), *values), strict=True):
                column.append(value)
    text = (
        "On logarithmic axes the loss leaves its plateau and falls with slope -1 onto (T - 1) / (4 eta t), while the "
        "attention off the subset falls with slope -1/2."
    )
    return Drawing(drawn, text, columns)
