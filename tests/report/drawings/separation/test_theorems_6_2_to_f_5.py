"""The figures of Theorems 6.2, D.5, E.4 and F.5."""

from __future__ import annotations

from tests.report.drawings.drawn import drawn


def test_paths_are_solid_where_the_theorem_allows_them() -> None:
    curves = {
        trace.name: trace.line.dash
        for trace in drawn("success_along_paths", "separation/theorem-6.2/paths").figure.data
    }
    allowed = {name for name, dash in curves.items() if dash == "solid"}
    assert allowed == {f"g = n<sup>{x}</sup>, allowed" for x in ("0.03", "0.1", "0.5")}
    assert len(curves) == 6
