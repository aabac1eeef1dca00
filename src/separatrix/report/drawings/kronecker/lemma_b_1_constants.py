"""Lemma B.1 of Alman and Song: the outputs of both cases, and the thresholds."""

from __future__ import annotations

import math

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, one_row_per_entry
from separatrix.report.theme import BLUE, GREEN, GREY, RED

_OUTPUTS = ("case_1", "case_2", "corrected", "printed")


@Curves(
    series=(
        Curve("log10 case_1", "case 1, least", BLUE, mode="lines"),
        Curve("log10 case_2", "case 2, largest", RED, mode="lines"),
        Curve("twice corrected", "threshold, corrected", GREEN, mode="lines", dash="dash"),
        Curve("twice printed", "threshold, printed", GREY, mode="lines", dash="dash"),
    ),
    x=Axis("β", "beta"),
    y=Axis("log<sub>10</sub> of the output u"),
    height=460,
    vertical="rule",
    vertical_dash="dot",
)
def lemma_b1_outputs(results: Results) -> Chart:
    """Lemma B.1 at eps = 1/2: the outputs of both cases against beta, and the printed and corrected thresholds."""
    cell = next(cell for cell in results if cell.parameters["low"] * 2 == cell.parameters["high"])
    rows = [
        {"beta": row["beta"], **{f"log10 {name}": row[name] / math.log(10) for name in _OUTPUTS}}
        for row in one_row_per_entry([cell.result], "beta", *_OUTPUTS)
    ]
    two, shape = math.log10(2), cell.parameters
    rule = rows[0]["beta"] / shape["factors"][0]
    drawn = [
        {**row, "rule": rule, **{f"twice {name}": row[f"log10 {name}"] + two for name in ("corrected", "printed")}}
        for row in rows
    ]
    text = (
        f"At n = {shape['n']}, d = {shape['d']}, t = {shape['high']}, eps = 1/2: for large beta the smallest output of "
        f"case 1 exceeds the largest of case 2; the corrected threshold separates them from beta = {rule:.0f} on, the "
        "printed threshold nowhere."
    )
    return drawn, text, rows
