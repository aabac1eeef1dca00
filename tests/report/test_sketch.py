"""Sketches of figures: every kind of trace, on every kind of axis."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from separatrix.report.sketch import labelled, sketch


def strokes(figure: go.Figure) -> list[str]:
    """The drawn paths, without the axis frames, which come last."""
    return re.findall(r' d="([^"]*)"', sketch(figure.to_dict()))


def test_a_curve_goes_from_corner_to_corner_within_the_margin() -> None:
    first, frame = strokes(go.Figure(go.Scatter(x=[0, 1, 2], y=[0.0, 1.0, 2.0], mode="lines")))
    assert first == "M18.0 388.0L300.0 200.0L582.0 12.0"
    assert frame == "M0.0 0.0V400.0H600.0"


def test_a_gap_ends_a_curve_and_nonpositive_numbers_on_a_log_axis_are_gaps() -> None:
    figure = go.Figure(go.Scatter(x=[1, 10, 0, 100, 1000], y=[1, 2, 3, None, 4], mode="lines+markers"))
    figure.update_xaxes(type="log")
    line, dots, _ = strokes(figure)
    assert line.count("M") == 2
    assert line.count("L") == 1
    assert dots.count("h0") == 3


def test_limits_are_kept_and_an_axis_can_be_reversed() -> None:
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


def test_bars_have_the_requested_positions() -> None:
    figure = go.Figure(go.Bar(x=[1, 2], y=["a", "b"], orientation="h"))
    figure.update_xaxes(range=[0, 2])
    assert strokes(figure)[0] == "M0.0 388.0H300.0M0.0 12.0H600.0"


def area(boxes: str) -> float:
    """The area of boxes, which are drawn as M x y H x V y H x z."""
    boxes_drawn = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)", boxes)
    return sum(abs((float(right) - float(left)) * (float(low) - float(high))) for left, high, right, low in boxes_drawn)


def test_a_plane_has_a_cell_for_each_number_and_a_box_for_those_of_one_colour() -> None:
    *cells, _ = strokes(go.Figure(go.Heatmap(z=[[0.0, 1.0], [None, 2.0]])))
    assert [cell.count("M") for cell in cells] == [1, 1, 1]
    assert len({round(area(cell)) for cell in cells}) == 1
    (first, other, _) = strokes(go.Figure(go.Heatmap(z=[[0.0, 0.0, 0.0, 1.0]])))
    assert (first.count("M"), other.count("M")) == (1, 1)
    assert area(first) == pytest.approx(3 * area(other))


@pytest.mark.parametrize("size", [(32, 32), (33, 50), (100, 45)])
def test_a_plane_of_many_numbers_has_few_cells_and_no_gaps(size: tuple[int, int]) -> None:
    wide, high = size
    *cells, _ = strokes(go.Figure(go.Heatmap(z=[[i + 1000 * j for i in range(wide)] for j in range(high)])))
    assert sum(cell.count("M") for cell in cells) <= 32 * 32
    numbers = [[float(number) for number in re.findall(r"[\d.]+", cell)] for cell in cells]
    xs = [x for cell in numbers for x in cell[0::5] + cell[2::5]]
    ys = [y for cell in numbers for y in cell[1::5] + cell[3::5]]
    assert sum(map(area, cells)) == pytest.approx((max(xs) - min(xs)) * (max(ys) - min(ys)), rel=1e-2)


def test_a_kind_that_is_not_known_is_an_error() -> None:
    with pytest.raises(KeyError, match="histogram"):
        sketch(go.Figure(go.Histogram(x=[1, 2], y=[1, 2])).to_dict())


def test_letters_name_the_axes_the_curves_and_round_numbers() -> None:
    figure = go.Figure(go.Scatter(x=[1, 1e6], y=[0, 9.0], name="a curve", mode="lines"))
    figure.update_xaxes(type="log", title_text="tokens")
    figure.update_yaxes(title_text="loss")
    words = re.findall(r"<text[^>]*>([^<]*)<", labelled(figure.to_dict()))
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


def words_of(figure: go.Figure, **options: Any) -> list[str]:
    """The texts of a figure with labels, with subscripts and superscripts in their places."""
    root = ElementTree.fromstring(labelled(figure.to_dict(), **options))
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_labels_are_those_of_the_figure_or_its_categories() -> None:
    figure = go.Figure(go.Bar(x=["a", "a long name that does not fit"], y=[1.0, 3.0], showlegend=False))
    figure.update_yaxes(tickvals=[0, 2, 4], ticktext=["none", "two", "beyond"])
    words = words_of(figure, font_size=26)
    assert words[0] == "a"
    assert words[1].startswith("a long nam")
    assert words[1].endswith("…")
    assert words[2:4] == ["none", "two"]


def test_a_subscript_is_smaller_and_the_line_goes_on_where_it_was() -> None:
    figure = go.Figure(go.Scatter(x=[0, 1], y=[0, 1], showlegend=False))
    figure.update_xaxes(title_text="log<sub>10</sub> n<sup>2</sup>")
    assert "log10 n2" in words_of(figure)
    shifts = [float(shift) for shift in re.findall(r'dy="([-.\d]+)em"', labelled(figure.to_dict()))]
    assert shifts[0] * 0.7 == pytest.approx(-shifts[1])


def test_the_first_of_several_panels_fills_the_plot_and_is_named_as_such() -> None:
    figure = go.Figure([go.Scatter(x=[0, 1], y=[0, 1]), go.Scatter(x=[5, 9], y=[5, 9], xaxis="x2", yaxis="y2")])
    figure.update_layout(xaxis={"domain": [0, 0.4]}, xaxis2={"domain": [0.6, 1], "title": {"text": "both"}})
    words = words_of(figure, legend=False)
    assert "first of 2 panels" in words
    assert "both" in words
    assert "9" not in words
    (path,) = re.findall(r' d="(M[^"]*L[^"]*)"', labelled(figure.to_dict(), legend=False))
    assert [float(x) for x in re.findall(r"[ML]([\d.]+)", path)] == [18.0, 582.0]


def test_two_axes_over_one_plot_are_one_panel() -> None:
    figure = go.Figure([go.Scatter(x=[0, 1], y=[0, 1]), go.Scatter(x=[0, 1], y=[5, 9], yaxis="y2")])
    figure.update_layout(yaxis2={"overlaying": "y"})
    assert not any("panels" in word for word in words_of(figure))


def test_the_opacity_of_a_colour_scale_is_kept() -> None:
    scale = [[0, "rgba(47, 127, 193, 0.1)"], [1, "#2f7fc1"]]
    figure = go.Figure(go.Heatmap(z=[[0.0, 0.5, 1.0]], colorscale=scale)).to_dict()
    fills = re.findall(r'fill="(rgb[^"]*)"', str(sketch(figure)))
    assert [fill.rpartition(", ")[2] for fill in fills] == ["0.1)", "0.55)", "193)"]
