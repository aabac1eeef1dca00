"""The figures of Section 1."""

from __future__ import annotations

import pytest

from tests.claims.cells import ran
from tests.report.drawings.drawn import drawn


def test_the_drawn_triple_is_ringed() -> None:
    drawing = drawn("triple_found", "kronecker/section-1/triples")
    heat, triple, blank = drawing.figure.data
    cell = next(cell for cell in ran("kronecker/section-1/triples") if "weights" in cell.result)
    tokens, M = cell.result["tokens"], cell.parameters["modulus"]
    for x, y in ((triple.x[0], triple.y[0]), (triple.x[6], triple.y[6])):
        j1, j2 = int(y + 0.5), int(x + 0.5)
        assert (tokens[0] + tokens[j1] + tokens[j2]) % M == 0
        assert heat.z[j1][j2] == max(max(row) for row in heat.z)
    assert (blank.x[0], blank.y[0]) == (len(tokens) - 0.5, len(tokens) - 0.5)
    assert sum(drawing.columns["weight"]) == pytest.approx(1.0)
    assert "= 100" in triple.name


def test_the_bound_of_entries_is_drawn() -> None:
    drawing = drawn("match_entry_bound", "kronecker/section-1/triples")
    assert len(drawing.figure.data) == 5
    first = drawing.figure.data[0]
    growth = first.y[-1] / first.y[-4]
    assert growth == pytest.approx(8 ** (2 / 3), rel=1e-3)
