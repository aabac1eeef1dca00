"""The figures of Lemma B.1."""

from __future__ import annotations

from tests.report.drawings.drawn import drawn


def test_the_borders_are_ordered() -> None:
    drawing = drawn("smallest_beta", "kronecker/lemma-b.1/smallest-beta")
    exact, rule, cube, square = (drawing.columns[name] for name in ("exact", "rule", "cube", "square"))
    assert all(a < b < c < d for a, b, c, d in zip(exact, rule, cube, square, strict=True))
