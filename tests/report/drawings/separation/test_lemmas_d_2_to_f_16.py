"""The figures of Lemmas D.2 to F.16."""

from __future__ import annotations

from tests.report.drawings.drawn import drawn


def test_entries_lie_on_their_side_of_the_bound() -> None:
    columns = drawn("entry_bounds", "separation/lemma-d.3").columns
    for relation, ratio in zip(columns["relation"], columns["ratio"], strict=True):
        assert isinstance(ratio, float)
        assert {"=": abs(ratio - 1) < 1e-12, "<=": ratio < 1 + 1e-12, ">=": ratio > 1 - 1e-12}[str(relation)]


def test_a_count_of_entries_has_no_ratio_and_no_row() -> None:
    parts = set(drawn("entry_bounds", "separation/lemma-e.1").columns["part"])
    assert {"1a", "1b, from above", "4, far"} <= parts
    assert not {"1b, near", "2, far"} & parts


def test_a_rare_row_is_finally_drawn_below_the_bound() -> None:
    drawing = drawn("row_chances", "separation/lemma-d.12")
    allowed = drawing.figure.data[-1]
    assert allowed.name == "δ / n"
    limit = dict(zip(allowed.x, allowed.y, strict=True))
    growing = [trace for trace in drawing.figure.data[:-1] if "n<sup>0.5</sup>" in trace.name]
    assert growing  # the probability of a row is not small if a_1 grows with n
    for trace in drawing.figure.data[:-1]:
        assert (trace.y[-1] < limit[trace.x[-1]]) == (trace not in growing)
