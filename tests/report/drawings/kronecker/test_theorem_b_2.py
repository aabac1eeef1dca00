"""The figures of Theorem B.2."""

from __future__ import annotations

from tests.claims.cells import ran
from tests.report.drawings.drawn import drawn


def test_the_borders_are_ordered() -> None:
    plane = drawn("lower_bound_plane", "kronecker/theorem-b.2")
    rows = [row for row in zip(*plane.columns.values(), strict=True) if row[1] is not None]
    names = list(plane.columns)
    for row in rows:
        at = dict(zip(names, row, strict=True))
        assert at["constant_rank"] < at["cube_root"] < at["constant_exact"] < at["constant_rule"]
    assert len(rows) == 11
    assert sum(value is not None for value in plane.columns["border"]) == 3


def test_the_lower_bounds_side_joins_the_phase_diagram() -> None:
    drawing = drawn("lower_bound_phase", "kronecker/theorem-b.2")
    heat, border, rank, exact, rule = drawing.figure.data
    grid = {
        cell.parameters["log2_n"]: cell for cell in ran("kronecker/theorem-b.2") if "polynomial_exponent" in cell.result
    }
    for log2_n, row in zip(heat.y, heat.z, strict=True):
        cell = grid[log2_n]
        exponents = dict(zip(cell.parameters["ratios"], cell.result["polynomial_exponent"], strict=True))
        for ratio, exponent in zip(heat.x, row, strict=True):
            assert exponent == min(exponents.get(ratio, cell.result["exact_exponent"]), cell.result["exact_exponent"])
    assert tuple(border.x) == tuple(grid[log2_n].result["border"] for log2_n in border.y)
    assert all(a < b < c for a, b, c in zip(rank.x, exact.x, rule.x, strict=True))
