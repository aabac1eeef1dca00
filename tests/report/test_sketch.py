"""Sketches of figures: every kind of trace, on every kind of axis."""

from __future__ import annotations

import re

import plotly.graph_objects as go
import pytest

from separatrix.report.sketch import lettered, sketch


def strokes(figure: go.Figure) -> list[str]:
    """The paths that are drawn, without the frames of the axes, which come last."""
    return re.findall(r' d="([^"]*)"', sketch(figure.to_dict()))


def test_a_curve_goes_from_corner_to_corner_within_the_margin() -> None:
    first, frame = strokes(go.Figure(go.Scatter(x=[0, 1, 2], y=[0.0, 1.0, 2.0], mode="lines")))
    assert first == "M18.0 388.0L300.0 200.0L582.0 12.0"
    assert frame == "M0.0 0.0V400.0H600.0"


def test_a_gap_ends_a_curve_and_what_a_logarithm_has_not_is_one() -> None:
    figure = go.Figure(go.Scatter(x=[1, 10, 0, 100, 1000], y=[1, 2, 3, None, 4], mode="lines+markers"))
    figure.update_xaxes(type="log")
    line, dots, _ = strokes(figure)
    assert line.count("M") == 2
    assert line.count("L") == 1
    assert dots.count("h0") == 3


def test_limits_are_kept_and_an_axis_can_be_turned_round() -> None:
    figure = go.Figure(go.Scatter(x=[0, 10], y=[0, 10], mode="lines"))
    figure.update_xaxes(range=[0, 20])
    figure.update_yaxes(range=[10, 0])
    assert strokes(figure)[0] == "M0.0 0.0L300.0 400.0"


def test_panels_have_their_own_places() -> None:
    figure = go.Figure([go.Bar(x=["a", "b"], y=[1, 2]), go.Bar(x=["a"], y=[1], xaxis="x2", yaxis="y2")])
    figure.update_layout(xaxis={"domain": [0, 0.4]}, xaxis2={"domain": [0.6, 1]}, yaxis2={"anchor": "x2"})
    left, right, *frames = strokes(figure)
    assert len(frames) == 2
    assert all(float(x) <= 240 for x in re.findall(r"M([\d.]+)", left))
    assert all(float(x) >= 360 for x in re.findall(r"M([\d.]+)", right))


def test_a_plane_has_a_cell_for_each_number_and_few_where_they_are_many() -> None:
    assert len(strokes(go.Figure(go.Heatmap(z=[[0.0, 1.0], [None, 2.0]])))) == 3 + 1
    assert len(strokes(go.Figure(go.Heatmap(z=[[i * j for i in range(100)] for j in range(50)])))) == 24 * 24 + 1


def test_a_kind_that_is_not_known_is_an_error() -> None:
    with pytest.raises(KeyError, match="histogram"):
        sketch(go.Figure(go.Histogram(x=[1, 2], y=[1, 2])).to_dict())


def test_letters_name_the_axes_the_curves_and_round_numbers() -> None:
    figure = go.Figure(go.Scatter(x=[1, 1e6], y=[0, 9.0], name="a curve", mode="lines"))
    figure.update_xaxes(type="log", title_text="tokens")
    figure.update_yaxes(title_text="loss")
    words = re.findall(r"<text[^>]*>([^<]*)<", lettered(figure.to_dict()))
    assert words == [
        "1",
        "10",
        "100",
        "1000",
        "1e4",
        "1e5",
        "1e6",
        "0",
        "2",
        "4",
        "6",
        "8",
        "tokens",
        "loss",
        "a curve",
    ]
