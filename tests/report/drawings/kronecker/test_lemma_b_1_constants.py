"""The figures of Lemma B.1."""

from __future__ import annotations

from tests.report.drawings.drawn import drawn


def test_the_outputs_cross_where_the_text_says() -> None:
    drawing = drawn("lemma_b1_outputs", "kronecker/lemma-b.1/threshold")
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
