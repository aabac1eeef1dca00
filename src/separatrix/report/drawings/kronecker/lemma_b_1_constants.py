"""Lemma B.1 of Alman and Song: the outputs of both cases, and the thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, GREEN, GREY, RED, Drawing, Value, figure


@drawing
def lemma_b1_outputs(found: Sequence[Found]) -> Drawing:
    """Lemma B.1 at eps = 1/2: the outputs nearest to the gap against beta, with both thresholds."""
    one = next(one for one in found if one.parameters["low"] * 2 == one.parameters["high"])
    row, shape = one.result, one.parameters
    drawn = figure("beta", "log<sub>10</sub> of the output u", height=460)
    tens = {
        name: [value / math.log(10) for value in row[name]] for name in ("case_1", "case_2", "corrected", "printed")
    }
    two = math.log10(2)
    for name, label, colour, dash, shift in (
        ("case_1", "case 1, least", BLUE, "solid", 0.0),
        ("case_2", "case 2, largest", RED, "solid", 0.0),
        ("corrected", "threshold, corrected", GREEN, "dash", two),
        ("printed", "threshold, printed", GREY, "dash", two),
    ):
        y = [value + shift for value in tens[name]]
        drawn.add_trace(curve(label, row["beta"], y, colour, mode="lines", dash=dash))
    rule = row["beta"][0] / shape["factors"][0]
    drawn.add_vline(x=rule, line={"color": GREY, "width": 1, "dash": "dot"})
    text = (
        f"At n = {shape['n']}, d = {shape['d']}, t = {shape['high']}, eps = 1/2: the least output of case 1 overtakes "
        f"the largest of case 2; the corrected threshold parts them from beta = {rule:.0f} on, the printed one nowhere."
    )
    columns: dict[str, list[Value]] = {"beta": list(row["beta"])}
    columns |= {f"log10 {name}": list(values) for name, values in tens.items()}
    return Drawing(drawn, text, columns)
