"""Figure 3: results that change its verdict, on the short runs of Figure 8."""

from __future__ import annotations

from dataclasses import replace

from separatrix.claims.selection import figure_3
from tests.claims.cells import ran, shortened
from tests.claims.changes import HOLDS, NOT_REPRODUCED, UNDECIDED


def test_the_full_run_works() -> None:
    """With few steps nothing is learned, and the check says so instead of raising an error."""
    finding = figure_3.figure_3.judged(shortened("selection/figure-3"))
    assert finding.verdict in (NOT_REPRODUCED, HOLDS, UNDECIDED)
    assert finding.numbers


def test_an_initialization_near_the_truth_is_not_that_of_the_figure() -> None:
    """Replace the end of a run by that of the full run; the start is that of the seed."""
    cells = []
    for cell in ran("selection/figure-8/first-1-000-steps"):
        ends = {"cosine_W": 0.999, "cosine_V": 0.999, "off_W": 0.01, "off_V": 0.01}
        changed = {name: [*cell.result[name][:-1], end] for name, end in ends.items()} | {"kept": 0.01}
        cells.append(replace(cell, result={**cell.result, **changed}))
    assert figure_3.figure_3.check(cells).verdict is HOLDS
    leaning = [replace(cell, result={**cell.result, "cosine_V": [0.5, *cell.result["cosine_V"][1:]]}) for cell in cells]
    assert figure_3.figure_3.check(leaning).verdict is NOT_REPRODUCED
