"""The figures of Theorems 1.3 and 1.4."""

from __future__ import annotations

from tests.report.drawings.drawn import drawn


def test_the_phase_diagram_shows_the_cheaper_algorithm() -> None:
    drawing = drawn("threshold_phase_diagram", "kronecker/theorem-1.3")
    first = drawing.figure.data[0]
    columns = drawing.columns
    for at in range(len(first.x)):
        least = min(columns["polynomial_exponent"][at], columns["exact_exponent"][at])
        assert (columns["order"][at], columns["log2_n"][at], columns["ratio"][at]) == (2, first.y[0], first.x[at])
        assert first.z[0][at] == least
