"""Plotly figures as small static SVGs: curves, points, bars and heat maps, with or without axis labels.

The report shows the `sketch` of a figure until Plotly has loaded, and when scripts are disabled. The notebooks and the
gallery of the documents show `labelled` figures.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from separatrix.report.markup import Html, tag
from separatrix.report.theme import COLOURS, GREY

_WIDE, _HIGH = 600.0, 400.0
_CELLS = 32
"""The largest number of cells that are drawn along a side of a heat map."""

_MANY = 20
"""Curves with fewer points have markers by default, as in Plotly."""

Point = tuple[float, float]


def sketch(figure: Mapping[str, Any]) -> Html:
    """Draw a figure without labels; the SVG stretches to any size, and its lines keep their width.

    Args:
        figure: a Plotly figure as a dictionary of data and layout.
    """
    parts, _ = _outline(figure)
    box = f"0 0 {_WIDE:g} {_HIGH:g}"
    return tag("svg", *parts, xmlns=_SVG, viewBox=box, preserveAspectRatio="none", class_="sketch", aria_hidden="true")


def labelled(figure: Mapping[str, Any], *, font_size: int = 14, legend: bool = True) -> Html:
    """Draw a figure with tick labels, axis titles and a legend; of a figure with several panels, draw the first.

    Args:
        figure: a Plotly figure as a dictionary of data and layout.
        font_size: in units of the SVG, in which the plot is 600 wide and 400 high.
        legend: whether to list the names of the traces below the plot.
    """
    count = len(_panels(figure))
    figure = _first_panel(figure)
    parts, axes = _outline(figure)
    layout, x, y = figure["layout"], axes["x"], axes["y"]
    # Larger fonts leave room for fewer tick labels. A letter is 0.58 of the font size wide on average.
    most = 7 if font_size < 20 else 4
    letter = 0.58 * font_size
    below, beside = x.ticks(most, round(_WIDE / letter)), y.ticks(most, 12)
    left = round(max((len(text) for _, text in beside), default=0) * letter + 2.2 * font_size)
    top = round(0.85 * font_size if count == 1 else 1.6 * font_size)
    size = {"width": f"{_WIDE:g}", "height": f"{_HIGH:g}", "viewBox": f"0 0 {_WIDE:g} {_HIGH:g}"}
    words = [_word(left + x.at(at), top + _HIGH + 1.4 * font_size, text, "middle") for at, text in below]
    words += [_word(left - 0.5 * font_size, top + y.at(at) + 0.3 * font_size, text, "end") for at, text in beside]
    x_title, y_title = ((layout.get(f"{kind}axis", {}).get("title") or {}).get("text") or "" for kind in "xy")
    words.append(_word(left + _WIDE / 2, top + _HIGH + 2.9 * font_size, x_title, "middle"))
    turned = f"translate({font_size:g} {top + _HIGH / 2:g}) rotate(-90)"
    words.append(_word(0, 0, y_title, "middle", transform=turned))
    if count > 1:
        words.append(_word(left + _WIDE, font_size, f"first of {count} panels", "end"))
    high = top + _HIGH + 3.4 * font_size
    if legend:
        named = [(number, trace) for number, trace in enumerate(figure["data"]) if trace.get("showlegend", True)]
        for place, (number, trace) in enumerate(named):
            at, row = left + 300 * (place % 2), high + font_size + 1.6 * font_size * (place // 2)
            words.append(_stroke(f"M{at} {row - 5:g}h24", _colour(trace, number), 2, _dash(trace)))
            words.append(_word(at + 32, row, trace.get("name") or "", "start"))
        high += 1.6 * font_size * ((len(named) + 1) // 2)
    box = f"0 0 {left + _WIDE + font_size:g} {high:g}"
    plot = tag("svg", *parts, x=left, y=top, **size)
    return tag("svg", plot, *words, xmlns=_SVG, viewBox=box, font_family="sans-serif", font_size=font_size)


_SVG = "http://www.w3.org/2000/svg"


def _panels(figure: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs of axes of a figure, in the order of its traces; two vertical axes over one plot are one panel."""
    layout = figure.get("layout", {})
    pairs = [(trace.get("xaxis", "x"), trace.get("yaxis", "y")) for trace in figure.get("data", [])]
    return [(x, y) for x, y in dict.fromkeys(pairs) if not layout.get(f"yaxis{y[1:]}", {}).get("overlaying")]


def _first_panel(figure: Mapping[str, Any]) -> dict[str, Any]:
    """The figure with only the traces of its first panel, which fills the plot."""
    layout = {**figure.get("layout", {})}
    for kind in "xy":
        layout[f"{kind}axis"] = {**layout.get(f"{kind}axis", {}), "domain": (0.0, 1.0)}
    if not layout["xaxis"].get("title"):  # panels side by side may share the title of one of them
        titles = (layout[name].get("title") for name in sorted(layout) if name.startswith("xaxis"))
        layout["xaxis"]["title"] = next((title for title in titles if title), None)
    first = [
        trace
        for trace in figure.get("data", [])
        if (trace.get("xaxis", "x"), trace.get("yaxis", "y")) == ("x", "y") and trace.get("visible", True) is True
    ]
    return {"data": first, "layout": layout}


_MARKUP = re.compile(r"<(?P<tag>sub|sup)>(?P<raised>.*?)</(?P=tag)>|<br>")


def _word(x: float, y: float, text: str, anchor: str, **more: str) -> Html:
    """A text of the SVG, in which Plotly's ``<sub>`` and ``<sup>`` are smaller and off the line."""
    parts: list[Html | str] = []
    end, shift = 0, 0.0
    for match in _MARKUP.finditer(text):
        if plain := text[end : match.start()]:
            parts.append(tag("tspan", plain, dy=f"{-shift:g}em") if shift else plain)
            shift = 0.0
        if match["tag"]:
            down = 0.25 if match["tag"] == "sub" else -0.35
            # The smaller font has 0.7 times the size of the line's font.
            parts.append(tag("tspan", match["raised"], dy=f"{(down - shift) / 0.7:g}em", font_size="70%"))
            shift = down
        end = match.end()
    if plain := text[end:]:
        parts.append(tag("tspan", plain, dy=f"{-shift:g}em") if shift else plain)
    return tag("text", *parts, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, fill=GREY, **more)


def _outline(figure: Mapping[str, Any]) -> tuple[list[Html], dict[str, _Axis]]:
    """The SVG elements of a figure, and its axes by name."""
    layout = figure.get("layout", {})
    axes: dict[str, _Axis] = {}
    traces = [trace for trace in figure.get("data", []) if trace.get("visible", True) is True]
    for trace in traces:
        for kind in "xy":
            name = trace.get(f"{kind}axis", kind)
            axis = axes.setdefault(name, _axis(name, layout))
            values = [value for value in map(axis.number, _entries(trace, kind)) if value is not None]
            axis.values += _edges(values) if trace["type"] == "heatmap" else values
    for name, axis in axes.items():
        if any(trace["type"] == "bar" and trace.get("yaxis", "y") == name for trace in traces):
            axis.values.append(0.0)
    drawn: list[Html] = []
    for number, trace in enumerate(traces):
        x, y = axes[trace.get("xaxis", "x")], axes[trace.get("yaxis", "y")]
        drawn += _KINDS[trace["type"]](trace, x, y, _colour(trace, number), layout)
    frames = {(trace.get("xaxis", "x"), trace.get("yaxis", "y")) for trace in traces}
    return [*drawn, *(_frame(axes[x], axes[y]) for x, y in sorted(frames))], axes


@dataclass
class _Axis:
    """An axis: its position, its scale, and the values of all traces along it."""

    start: float
    end: float
    log: bool
    limits: tuple[float, float] | None
    reversed: bool
    labels: tuple[tuple[float, str], ...] = ()
    values: list[float] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def number(self, value: Any) -> float | None:
        """A value on the scale of the axis, or None if it cannot be drawn there. Categories are numbered."""
        if isinstance(value, str):
            return float(self.names.setdefault(value, len(self.names)))
        if value is None or not math.isfinite(value) or (self.log and value <= 0):
            return None
        return math.log10(value) if self.log else float(value)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value, on the scale of the axis."""
        return self.limits or (min(self.values, default=0.0), max(self.values, default=1.0))

    def ticks(self, most: int, letters: int) -> list[tuple[float, str]]:
        """Places along the axis and their labels: those of the figure, categories, powers of ten, or round steps.

        There are at most `most` numbers. Labels of categories together have at most `letters` letters along a
        horizontal axis, and each of them along a vertical one; longer labels are cut.
        """
        low, high = sorted(self.ends)
        if self.labels:
            inside = [(place, text) for place, text in self.labels if low <= place <= high]
            return [(place, _cut(text, letters)) for place, text in inside[:: math.ceil(len(inside) / most)]]
        if self.names:
            room = letters if self.start > self.end else letters // len(self.names) - 1
            return [(float(place), _cut(name, room)) for name, place in self.names.items()]
        if self.log and math.floor(high + 1e-9) - math.ceil(low - 1e-9) >= 1:
            step = max(1, math.ceil((high - low) / (most - 1)))
            powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, step)
            return [(float(power), f"1e{power}" if abs(power) > 3 else f"{10.0**power:g}") for power in powers]
        if self.log:  # less than a decade
            return [(place, f"{10.0**place:.2g}".replace("e+0", "e").replace("e-0", "e-")) for place in (low, high)]
        if high == low:
            return [(low, f"{low:g}")]
        width = 10 ** math.floor(math.log10((high - low) / (most - 1)))
        step_ = next(width * times for times in (1, 2, 5, 10) if (high - low) / (width * times) <= most - 1)
        first = math.ceil(low / step_ - 1e-9)
        return [(k * step_, f"{k * step_:g}") for k in range(first, math.floor(high / step_ + 1e-9) + 1)]

    def at(self, value: float) -> float:
        """The coordinate in the SVG of a value on the scale of the axis."""
        low, high = self.ends
        share = (value - low) / (high - low) if high != low else 0.5
        share = 0.03 + 0.94 * share if self.limits is None else share
        return self.start + (self.end - self.start) * (1 - share if self.reversed else share)


def _axis(name: str, layout: Mapping[str, Any]) -> _Axis:
    kind, number = name[0], name[1:]
    options = layout.get(f"{kind}axis{number}", {})
    low, high = options.get("domain") or (0.0, 1.0)
    ends = (low * _WIDE, high * _WIDE) if kind == "x" else ((1 - low) * _HIGH, (1 - high) * _HIGH)
    limits = options.get("range")
    numeric = limits is not None and all(isinstance(limit, int | float) for limit in limits)
    axis = _Axis(*ends, options.get("type") == "log", None, options.get("autorange") == "reversed")
    axis.limits = tuple(limits) if numeric else None
    places = [axis.number(value) for value in options.get("tickvals") or ()]
    texts = options.get("ticktext") or ()
    axis.labels = tuple((place, text) for place, text in zip(places, texts, strict=False) if place is not None)
    return axis


def _cut(text: str, letters: int) -> str:
    text = text.replace("<br>", " ")
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _entries(trace: Mapping[str, Any], kind: str) -> Sequence[Any]:
    """The values of a trace along an axis; the cells of a heat map without coordinates are numbered."""
    if trace.get(kind) is not None:
        return _listed(trace[kind])
    if trace["type"] != "heatmap":
        return range(len(_listed(trace["y" if kind == "x" else "x"])))
    rows = _listed(trace["z"])
    return range(len(rows[0]) if kind == "x" else len(rows))


def _listed(values: Any) -> list[Any]:
    """The values of an array, which Plotly may have encoded as base64."""
    if not isinstance(values, Mapping):
        return list(values)
    flat = np.frombuffer(b64decode(values["bdata"]), values["dtype"])
    shape = [int(size) for size in values["shape"].split(",")] if "shape" in values else [-1]
    listed: list[Any] = flat.reshape(shape).tolist()
    return listed


def _colour(trace: Mapping[str, Any], number: int) -> str:
    for part in ("line", "marker"):
        colour = trace.get(part, {}).get("color")
        if isinstance(colour, str):
            return colour
    return COLOURS[number % len(COLOURS)]


def _opacity(colour: str) -> float:
    return float(colour.rpartition(",")[2].rstrip(")")) if colour.startswith("rgba(") else 1.0


def _points(trace: Mapping[str, Any], x: _Axis, y: _Axis) -> Iterator[Point | None]:
    for x_value, y_value in zip(_entries(trace, "x"), _entries(trace, "y"), strict=False):
        across, up = x.number(x_value), y.number(y_value)
        yield None if across is None or up is None else (x.at(across), y.at(up))


def _scatter(trace: Mapping[str, Any], x: _Axis, y: _Axis, colour: str, layout: Mapping[str, Any]) -> list[Html]:
    """A curve, its markers, or both; missing values interrupt the curve."""
    points = list(_points(trace, x, y))
    mode = trace.get("mode", "lines" if len(points) >= _MANY else "lines+markers")
    drawn = []
    width = trace.get("line", {}).get("width", 2)
    if "lines" in mode and width:
        path = "".join(
            f"{'L' if before else 'M'}{here[0]:.1f} {here[1]:.1f}"
            for before, here in pairwise([None, *points])
            if here is not None
        )
        drawn.append(_stroke(path, colour, 2, _dash(trace)))
    if "markers" in mode:
        # A line of length 0 with round caps stays a round dot when the SVG is stretched.
        dots = "".join(f"M{point[0]:.1f} {point[1]:.1f}h0" for point in points if point is not None)
        drawn.append(_stroke(dots, colour, 6, None))
    return drawn


def _dash(trace: Mapping[str, Any]) -> str | None:
    return None if trace.get("line", {}).get("dash", "solid") == "solid" else "4 4"


def _bar(trace: Mapping[str, Any], x: _Axis, y: _Axis, colour: str, layout: Mapping[str, Any]) -> list[Html]:
    points = [point for point in _points(trace, x, y) if point is not None]
    if trace.get("orientation") == "h":
        path = "".join(f"M{x.at(0.0):.1f} {point[1]:.1f}H{point[0]:.1f}" for point in points)
    else:
        path = "".join(f"M{point[0]:.1f} {y.at(0.0):.1f}V{point[1]:.1f}" for point in points)
    return [_stroke(path, colour, 6, None)]


def _heatmap(trace: Mapping[str, Any], x: _Axis, y: _Axis, colour: str, layout: Mapping[str, Any]) -> list[Html]:
    """A heat map, sampled if it is large; neighbouring cells of a row that have the same colour are one box."""
    from plotly.colors import sample_colorscale  # type: ignore[import-untyped]

    rows = [list(row) for row in _listed(trace["z"])]
    across, up = ([axis.number(value) or 0.0 for value in _entries(trace, kind)] for axis, kind in ((x, "x"), (y, "y")))
    columns, lines = _some(len(across)), _some(len(up))
    finite = [value for row in rows for value in row if value is not None and math.isfinite(value)]
    low, high = (trace.get("zmin", min(finite)), trace.get("zmax", max(finite)))
    axis = layout.get(trace.get("coloraxis", ""), {})
    scale = trace.get("colorscale") or axis.get("colorscale") or "Viridis"
    # The sampled colours have no opacity.
    stops, opacities = zip(
        *([(0, 1.0)] if isinstance(scale, str) else [(at, _opacity(end)) for at, end in scale]), strict=True
    )
    sides = [x.at(edge) for edge in _edges([across[i] for i in columns])]
    tops = [y.at(edge) for edge in _edges([up[j] for j in lines])]

    def fill(value: float | None) -> str | None:
        if value is None or not math.isfinite(value):
            return None
        share = min(1.0, max(0.0, (value - low) / (high - low))) if high != low else 0.5
        (colour,) = sample_colorscale(scale, [share])
        opacity = round(float(np.interp(share, stops, opacities)), 2)
        return str(colour) if opacity == 1 else str(colour).replace("rgb(", "rgba(").replace(")", f", {opacity})")

    boxes: dict[str, list[str]] = {}
    for j, (top, bottom) in zip(lines, pairwise(tops), strict=True):
        fills = [fill(rows[j][i]) for i in columns]
        for colour_of_run, run in groupby(range(len(columns)), key=lambda i: fills[i]):
            first, *_, last = [*run] * 2
            if colour_of_run is not None:
                box = f"M{sides[first]:.1f} {top:.1f}H{sides[last + 1]:.1f}V{bottom:.1f}H{sides[first]:.1f}z"
                boxes.setdefault(colour_of_run, []).append(box)
    return [tag("path", d="".join(paths), fill=fill_, shape_rendering="crispEdges") for fill_, paths in boxes.items()]


def _edges(places: Sequence[float]) -> list[float]:
    """The edges of cells with these centres: the midpoints, and one edge beyond the first and the last centre."""
    if len(places) == 1:
        return [places[0] - 0.5, places[0] + 0.5]
    between = [(left + right) / 2 for left, right in pairwise(places)]
    return [2 * places[0] - between[0], *between, 2 * places[-1] - between[-1]]


_KINDS = {"scatter": _scatter, "bar": _bar, "heatmap": _heatmap}


def _some(count: int) -> list[int]:
    """Evenly spaced indices below `count`, at most `_CELLS` of them."""
    if count <= _CELLS:
        return list(range(count))
    return [round(i * (count - 1) / (_CELLS - 1)) for i in range(_CELLS)]


def _frame(x: _Axis, y: _Axis) -> Html:
    return _stroke(f"M{x.start:.1f} {y.end:.1f}V{y.start:.1f}H{x.end:.1f}", GREY, 1, None)


def _stroke(path: str, colour: str, width: int, dash: str | None) -> Html:
    return tag(
        "path", d=path, fill="none", stroke=colour, stroke_width=width, stroke_linecap="round", stroke_dasharray=dash,
        vector_effect="non-scaling-stroke",
    )  # fmt: skip
