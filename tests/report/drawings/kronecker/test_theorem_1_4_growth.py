"""The figures of Theorem 1.4."""

from __future__ import annotations

from dataclasses import replace

from separatrix.report.figures import draw
from tests.claims.cells import ran


def test_seconds_are_drawn_with_the_flops_if_recorded() -> None:
    cells = [replace(cell, seconds=0.5) for cell in ran("kronecker/theorem-1.4/linear-growth")]
    drawing = draw("linear_growth", cells)
    timed = [trace for trace in drawing.figure.data if trace.yaxis == "y2"]
    assert len(timed) == 6
    assert {value for trace in timed for value in trace.y} == {0.5}
    assert [len(trace.x) for trace in timed] == [8, 8, 8, 4, 8, 1]
    times = [
        (method, seconds) for method, seconds in zip(*(drawing.columns[c] for c in ("method", "seconds")), strict=True)
    ]
    assert times.count(("near-linear", 0.5)) == 24
    assert times.count(("exact", 0.5)) == 13
    assert times.count(("near-linear", None)) == 21
