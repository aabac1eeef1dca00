"""The figures of the lower bound show what their claims found."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from separatrix.claims import ledger, load
from separatrix.claims.ledger import Found
from separatrix.lab.registry import named
from separatrix.report.figures import draw
from separatrix.report.theme import Drawing

load("kronecker")


@cache
def found(id: str) -> tuple[Found, ...]:
    cells = ledger._REGISTRY[f"kronecker/{id}"].cells()
    return tuple(Found(c.arguments, c.seed, named(c.experiment)(seed=c.seed, **c.arguments)) for c in cells)


def drawn(name: str, id: str) -> Drawing:
    return draw(name, found(id))


def test_the_lies_lie_on_their_bound() -> None:
    drawing = drawn("protocol_soundness", "theorem-4.5")
    traces = {trace.name: trace for trace in drawing.figure.data}
    for r in (2, 3, 4):
        points = traces[f"r = {r}, best lie"]
        expected = {
            one.parameters["length"]: Fraction(one.result["worst"])
            for one in found("theorem-4.5")
            if one.result["r"] == r
        }
        assert dict(zip(points.x, points.y, strict=True)) == {
            at: float(value) for at, value in sorted(expected.items())
        }
        assert all(y <= min(1, 3 * (r - 1) / x) + 1e-12 for x, y in zip(points.x, points.y, strict=True))
        typical = traces[f"r = {r}, mean over sets"]
        assert all(mean <= worst + 1e-12 for mean, worst in zip(typical.y, points.y, strict=True))


def test_the_outputs_cross_where_the_text_says() -> None:
    drawing = drawn("lemma_b1_outputs", "lemma-b.1/threshold")
    traces = {trace.name: trace for trace in drawing.figure.data}
    rule = float(drawing.text.split("beta = ")[1].split()[0])
    for beta, largest, bar, least in zip(
        traces["case 2, largest"].x,
        traces["case 2, largest"].y,
        traces["threshold, corrected"].y,
        traces["case 1, least"].y,
        strict=True,
    ):
        if beta > rule + 1:
            assert largest < bar < least
    assert all(y > bar for y, bar in zip(traces["case 2, largest"].y, traces["threshold, printed"].y, strict=True))


def test_the_borders_are_ordered() -> None:
    drawing = drawn("smallest_beta", "lemma-b.1/smallest-beta")
    exact, rule, cube, square = (drawing.columns[name] for name in ("exact", "rule", "cube", "square"))
    assert all(a < b < c < d for a, b, c, d in zip(exact, rule, cube, square, strict=True))
    plane = drawn("lower_bound_plane", "theorem-b.2")
    rows = [row for row in zip(*plane.columns.values(), strict=True) if row[1] is not None]
    names = list(plane.columns)
    for row in rows:
        at = dict(zip(names, row, strict=True))
        assert at["constant_rank"] < at["cube_root"] < at["constant_exact"] < at["constant_rule"]
    assert len(rows) == 11
    assert sum(value is not None for value in plane.columns["border"]) == 3


def test_the_lower_bounds_side_joins_the_phase_diagram() -> None:
    drawing = drawn("lower_bound_phase", "theorem-b.2")
    heat, border, rank, exact, rule = drawing.figure.data
    grid = {one.parameters["log2_n"]: one for one in found("theorem-b.2") if "polynomial_exponent" in one.result}
    for log2_n, row in zip(heat.y, heat.z, strict=True):
        one = grid[log2_n]
        given = dict(zip(one.parameters["ratios"], one.result["polynomial_exponent"], strict=True))
        for ratio, exponent in zip(heat.x, row, strict=True):
            assert exponent == min(given.get(ratio, one.result["exact_exponent"]), one.result["exact_exponent"])
    assert tuple(border.x) == tuple(grid[log2_n].result["border"] for log2_n in border.y)
    assert all(a < b < c for a, b, c in zip(rank.x, exact.x, rule.x, strict=True))


def test_the_chain_grows_from_problem_to_problem() -> None:
    columns = drawn("chain_sizes", "theorem-4.7").columns
    for one in zip(
        *(columns[name] for name in ("cnf", "orthogonal_vectors", "direct_maxip", "direct_work")), strict=True
    ):
        assert list(one) == sorted(one)
    assert all(a < b for a, b in zip(columns["direct_maxip"], columns["protocol_maxip"], strict=True))
