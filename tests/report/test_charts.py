"""Declared figures: the traces, axes and columns for a few rows, derived by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from separatrix.claims.ledger import CellResult
from separatrix.report import charts
from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves, Level, Map, drawing
from separatrix.report.tables import Results, columns_of, one_row_per_entry, rows_of
from separatrix.report.theme import COLOURS, GREY, Drawing

ROWS: list[dict[str, Any]] = [
    {"d": 2, "n": 16, "flops": 3.0, "bound": 4.0},
    {"d": 2, "n": 8, "flops": 0.0, "bound": 2.0},
    {"d": 1, "n": 8, "flops": 1.0},
]


def curves(**options: Any) -> Curves:
    """Two columns against n, grouped by d."""
    declared = {
        "x": Axis("length n", "n", log=True, ticks="data"),
        "y": Axis("flops", log=True, range=(0, 1)),
        "series": (Curve("flops", "d = {d}"), Curve("bound", "bound at d = {d}", GREY, dash="dot", mode="lines")),
        "by": ("d",),
    }
    return Curves(**{**declared, **options})


def test_each_group_has_its_colour_and_the_curves_of_the_columns_that_it_has() -> None:
    traces = curves().figure(ROWS).data
    assert [(trace.name, trace.line.color, trace.line.dash, trace.mode) for trace in traces] == [
        ("d = 2", COLOURS[0], "solid", "lines+markers"),
        ("bound at d = 2", GREY, "dot", "lines"),
        ("d = 1", COLOURS[1], "solid", "lines+markers"),
    ]
    assert [tuple(trace.x) for trace in traces] == [(16, 8), (16, 8), (8,)]
    assert tuple(traces[0].y) == (3.0, None), "a logarithmic axis has no place for 0"
    assert tuple(curves(y=Axis("flops")).figure(ROWS).data[0].y) == (3.0, 0.0)


def test_axes_have_their_titles_scales_and_ticks() -> None:
    layout = curves(height=300).figure(ROWS).layout
    assert (layout.height, layout.xaxis.title.text, layout.yaxis.title.text) == (300, "length n", "flops")
    assert (layout.xaxis.type, layout.xaxis.tickvals, layout.xaxis.ticktext) == ("log", (8, 16), ("8", "16"))
    assert tuple(layout.yaxis.range) == (0, 1)
    with pytest.raises(TypeError, match="'flops' has no column"):
        Axis("flops", ticks="data")


def test_titles_take_columns_and_lines_cross_the_figure() -> None:
    options = {"y": Axis("flops at d = {d}"), "height": 300, "height_per_trace": 10, "legend_y": -0.5}
    drawn = curves(**options, levels=[Level(2, "two", "top left")], vertical="n", vertical_dash="dot").figure(ROWS)
    layout = drawn.layout
    assert (layout.yaxis.title.text, layout.height, layout.legend.y) == ("flops at d = 2", 330, -0.5)
    level, vertical = layout.shapes
    assert (level.y0, level.y1, level.xref, level.line.dash) == (2, 2, "x domain", None)
    assert (vertical.x0, vertical.x1, vertical.yref, vertical.line.dash) == (16, 16, "y domain", "dot")
    assert [(note.text, note.y) for note in layout.annotations] == [("two", 2)]


def test_a_curve_has_the_width_the_hover_text_and_the_error_bars_that_it_declares() -> None:
    declared = Curve("flops", "d = {d}", width=7, hover="%{{x}} at {d}", spread=("low", "high"), spread_thickness=3)
    rows = [{"d": 2, "n": 8, "flops": 3.0, "low": 1.0, "high": 3.5}]
    (trace,) = curves(series=declared).figure(rows).data
    assert (trace.line.width, trace.hovertemplate) == (7, "%{x} at 2")
    assert (trace.error_y.array, trace.error_y.arrayminus, trace.error_y.thickness) == ((0.5,), (2.0,), 3)


@pytest.mark.parametrize(
    ("bound", "at", "x", "y"),
    [
        (Bound("limit", 2.5), -1, (8, 16), (2.5, 2.5)),
        (Bound("limit", 2.5, first=True), 0, (8, 16), (2.5, 2.5)),
        (Bound("limit", lambda n: n / 4), -1, (8, 16), (2.0, 4.0)),
        (Bound("limit", "bound"), -1, (8, 16), (4.0, 4.0)),
    ],
)
def test_the_bound_reaches_across_the_data(bound: Bound, at: int, x: tuple[int, ...], y: tuple[float, ...]) -> None:
    trace = curves(bound=bound).figure(ROWS).data[at]
    assert (trace.name, tuple(trace.x), tuple(trace.y), trace.line.dash) == ("limit", x, y, "dash")


def test_curves_of_one_label_share_an_entry_of_the_legend() -> None:
    shared = curves(series=Curve("flops", "flops")).figure(ROWS).data
    assert [(trace.legendgroup, trace.showlegend) for trace in shared] == [("flops", True), ("flops", False)]


def test_a_spread_becomes_error_bars_and_a_look_may_depend_on_the_row() -> None:
    declared = Curve(
        "mean", "{d}", lambda row: COLOURS[row["d"]], symbol="square", size=7, mode="markers", spread=("low", "high")
    )
    rows = [{"d": 3, "n": 1, "mean": 5.0, "low": 4.0, "high": 7.0}]
    (trace,) = curves(series=declared).figure(rows).data
    assert (trace.error_y.array, trace.error_y.arrayminus) == ((2.0,), (1.0,))
    assert (trace.marker.color, trace.marker.symbol, trace.marker.size) == (COLOURS[3], "square", 7)


def test_a_map_has_the_order_of_its_rows_and_leaves_gaps_empty() -> None:
    declared = Map(x=Axis("n", "n"), y=Axis("d", "d"), z="flops", hover="%{z}", look={"showscale": False})
    (heat,) = declared.figure(ROWS).data
    assert (tuple(heat.x), tuple(heat.y)) == ((16, 8), (2, 1))
    assert [list(row) for row in heat.z] == [[3.0, 0.0], [None, 1.0]]
    assert heat.hovertemplate == "%{z}<extra></extra>"
    (labelled,) = replace(declared, text="bound").figure(ROWS).data
    assert [list(row) for row in labelled.text] == [[4.0, 2.0], [None, None]]


def test_a_declared_figure_is_registered_and_hands_out_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "FIGURES", {})

    @curves(columns=("n", "flops"))
    def flops_by_length(results: Results) -> Chart:
        """Flops."""
        return rows_of(results), "The flops."

    drawn = charts.FIGURES["flops_by_length"]([CellResult({"d": 1, "n": 8}, 0, {"flops": 2.0, "bound": 3.0})])
    assert (drawn.text, drawn.csv()) == ("The flops.", "n,flops\n8,2.0\n")
    assert flops_by_length.__doc__ == "Flops."

    @curves(columns=("d",))
    def flops_and_others(results: Results) -> Chart:
        return rows_of(results), "The flops.", [{"d": 5}]

    assert flops_and_others([CellResult({"d": 1, "n": 8}, 0, {"flops": 2.0})]).csv() == "d\n5\n"

    def flops_by_length_again(results: Results) -> Drawing:
        raise NotImplementedError

    flops_by_length_again.__name__ = "flops_by_length"
    with pytest.raises(TypeError, match="two figures have the name flops_by_length"):
        drawing(flops_by_length_again)


def test_columns_are_empty_where_a_row_has_none_and_an_unknown_column_is_an_error() -> None:
    assert columns_of(ROWS, "n", "bound") == {"n": [16, 8, 8], "bound": [4.0, 2.0, None]}
    with pytest.raises(KeyError, match="flop"):
        columns_of(ROWS, "flop")


def test_columns_that_are_split_have_equal_lengths() -> None:
    with pytest.raises(ValueError, match="shorter"):
        one_row_per_entry([{"n": [1, 2], "flops": [1.0]}], "n", "flops")
