"""A figure in outline: its curves, points, bars and planes as a small SVG without letters.

The page shows the sketch of a figure until the library that draws has started, and where no scripts run; the gallery of
the documents shows sketches alone. Whatever size a sketch is given, it is stretched to it, and its strokes are not.
"""

from __future__ import annotations

import math
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
"""A plane has so many cells along a side at most."""

_MANY = 20
"""Curves of fewer points have them marked where nothing else is said, as Plotly does it."""

Point = tuple[float, float]


def sketch(figure: Mapping[str, Any]) -> Html:
    """Draw the outline of a figure, which is given as Plotly's own dictionary of data and layout."""
    parts, _ = _outline(figure)
    box = f"0 0 {_WIDE:g} {_HIGH:g}"
    return tag("svg", *parts, xmlns=_SVG, viewBox=box, preserveAspectRatio="none", class_="sketch", aria_hidden="true")


def lettered(figure: Mapping[str, Any]) -> Html:
    """Draw a figure of one panel with its axes' numbers and names and the names of its curves, to stand alone."""
    parts, axes = _outline(figure)
    layout, x, y = figure["layout"], axes["x"], axes["y"]
    size = {"width": f"{_WIDE:g}", "height": f"{_HIGH:g}", "viewBox": f"0 0 {_WIDE:g} {_HIGH:g}"}
    inner = tag("svg", *parts, x=_LEFT, y=12, **size)
    words = [_word(_LEFT + x.at(at), _HIGH + 32, text, "middle") for at, text in x.ticks()]
    words += [_word(_LEFT - 8, 12 + y.at(at) + 4, text, "end") for at, text in y.ticks()]
    names = [(layout.get(f"{kind}axis", {}).get("title") or {}).get("text", "") for kind in "xy"]
    words.append(_word(_LEFT + _WIDE / 2, _HIGH + 56, names[0], "middle"))
    words.append(_word(0, 0, names[1], "middle", transform=f"translate(14 {12 + _HIGH / 2:g}) rotate(-90)"))
    below = _HIGH + 84
    for number, trace in enumerate(figure["data"]):
        at, row = _LEFT + 300 * (number % 2), below + 22 * (number // 2)
        words.append(_stroke(f"M{at} {row - 5}h24", _colour(trace, number), 2, _dash(trace)))
        words.append(_word(at + 32, row, trace.get("name") or "", "start"))
    high = below + 22 * ((len(figure["data"]) + 1) // 2)
    box = f"0 0 {_LEFT + _WIDE + 20:g} {high:g}"
    return tag("svg", inner, *words, xmlns=_SVG, viewBox=box, font_family="sans-serif", font_size=14)


_SVG = "http://www.w3.org/2000/svg"
_LEFT = 84


def _word(x: float, y: float, text: str, anchor: str, **more: str) -> Html:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, fill=GREY, **more)


def _outline(figure: Mapping[str, Any]) -> tuple[list[Html], dict[str, _Axis]]:
    """The strokes of a figure, and its axes."""
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
    """An axis: where it lies, how it counts, and all that is drawn along it."""

    start: float
    end: float
    log: bool
    limits: tuple[float, float] | None
    reversed: bool
    values: list[float] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def number(self, value: Any) -> float | None:
        """Where a value stands on the axis's own scale; None where nothing is drawn. Names are counted."""
        if isinstance(value, str):
            return float(self.names.setdefault(value, len(self.names)))
        if value is None or not math.isfinite(value) or (self.log and value <= 0):
            return None
        return math.log10(value) if self.log else float(value)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number of the axis, on its own scale."""
        return self.limits or (min(self.values, default=0.0), max(self.values, default=1.0))

    def ticks(self) -> list[tuple[float, str]]:
        """Some numbers along the axis, with what is written there: powers of ten, or round steps."""
        low, high = self.ends
        if self.log:
            step = max(1, math.ceil((high - low) / 6))
            powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, step)
            return [(float(power), f"1e{power}" if abs(power) > 3 else f"{10.0**power:g}") for power in powers]
        width = 10 ** math.floor(math.log10((high - low) / 4 or 1.0))
        step_ = next(width * times for times in (1, 2, 5, 10) if (high - low) / (width * times) <= 6)
        first = math.ceil(low / step_ - 1e-9)
        return [(k * step_, f"{k * step_:g}") for k in range(first, math.floor(high / step_ + 1e-9) + 1)]

    def at(self, value: float) -> float:
        """The place of a number on the sketch."""
        low, high = self.ends
        share = (value - low) / (high - low) if high != low else 0.5
        share = 0.03 + 0.94 * share if self.limits is None else share
        return self.start + (self.end - self.start) * (1 - share if self.reversed else share)


def _axis(name: str, layout: Mapping[str, Any]) -> _Axis:
    kind, number = name[0], name[1:]
    told = layout.get(f"{kind}axis{number}", {})
    low, high = told.get("domain") or (0.0, 1.0)
    ends = (low * _WIDE, high * _WIDE) if kind == "x" else ((1 - low) * _HIGH, (1 - high) * _HIGH)
    limits = told.get("range")
    good = limits is not None and all(isinstance(one, int | float) for one in limits)
    return _Axis(*ends, told.get("type") == "log", tuple(limits) if good else None, told.get("autorange") == "reversed")


def _entries(trace: Mapping[str, Any], kind: str) -> Sequence[Any]:
    """What a trace has along an axis; the cells of a plane are numbered where they have no names."""
    if trace.get(kind) is not None:
        return _listed(trace[kind])
    if trace["type"] != "heatmap":
        return range(len(_listed(trace["y" if kind == "x" else "x"])))
    rows = _listed(trace["z"])
    return range(len(rows[0]) if kind == "x" else len(rows))


def _listed(values: Any) -> list[Any]:
    """The values of an array, which Plotly may keep as bytes."""
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


def _points(trace: Mapping[str, Any], x: _Axis, y: _Axis) -> Iterator[Point | None]:
    for one, other in zip(_entries(trace, "x"), _entries(trace, "y"), strict=False):
        across, up = x.number(one), y.number(other)
        yield None if across is None or up is None else (x.at(across), y.at(up))


def _scatter(trace: Mapping[str, Any], x: _Axis, y: _Axis, colour: str, layout: Mapping[str, Any]) -> list[Html]:
    """A curve, its points, or both; nothing joins two points across a gap."""
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
        # A line of no length with round ends is a dot, however the sketch is stretched.
        dots = "".join(f"M{one[0]:.1f} {one[1]:.1f}h0" for one in points if one is not None)
        drawn.append(_stroke(dots, colour, 6, None))
    return drawn


def _dash(trace: Mapping[str, Any]) -> str | None:
    return None if trace.get("line", {}).get("dash", "solid") == "solid" else "4 4"


def _bar(trace: Mapping[str, Any], x: _Axis, y: _Axis, colour: str, layout: Mapping[str, Any]) -> list[Html]:
    points = [one for one in _points(trace, x, y) if one is not None]
    if trace.get("orientation") == "h":
        path = "".join(f"M{x.at(0.0):.1f} {one[1]:.1f}H{one[0]:.1f}" for one in points)
    else:
        path = "".join(f"M{one[0]:.1f} {y.at(0.0):.1f}V{one[1]:.1f}" for one in points)
    return [_stroke(path, colour, 6, None)]


def _heatmap(trace: Mapping[str, Any], x: _Axis, y: _Axis, colour: str, layout: Mapping[str, Any]) -> list[Html]:
    """A plane, of some of its cells where it has many; cells of a row that have one colour are one box."""
    from plotly.colors import sample_colorscale  # type: ignore[import-untyped]

    rows = [list(row) for row in _listed(trace["z"])]
    across, up = ([axis.number(one) or 0.0 for one in _entries(trace, kind)] for axis, kind in ((x, "x"), (y, "y")))
    columns, lines = _some(len(across)), _some(len(up))
    known = [one for row in rows for one in row if one is not None and math.isfinite(one)]
    low, high = (trace.get("zmin", min(known)), trace.get("zmax", max(known)))
    axis = layout.get(trace.get("coloraxis", ""), {})
    scale = trace.get("colorscale") or axis.get("colorscale") or "Viridis"
    sides = [x.at(one) for one in _edges([across[i] for i in columns])]
    tops = [y.at(one) for one in _edges([up[j] for j in lines])]

    def fill(value: float | None) -> str | None:
        if value is None or not math.isfinite(value):
            return None
        share = min(1.0, max(0.0, (value - low) / (high - low))) if high != low else 0.5
        (found,) = sample_colorscale(scale, [share])
        return str(found)

    boxes: dict[str, list[str]] = {}
    for j, (top, bottom) in zip(lines, pairwise(tops), strict=True):
        fills = [fill(rows[j][i]) for i in columns]
        for one, run in groupby(range(len(columns)), key=lambda i: fills[i]):
            first, *_, last = [*run] * 2
            if one is not None:
                box = f"M{sides[first]:.1f} {top:.1f}H{sides[last + 1]:.1f}V{bottom:.1f}H{sides[first]:.1f}z"
                boxes.setdefault(one, []).append(box)
    return [tag("path", d="".join(each), fill=one, shape_rendering="crispEdges") for one, each in boxes.items()]


def _edges(places: Sequence[float]) -> list[float]:
    """The borders of cells around these places: halfway between two, and as far beyond the first and the last."""
    if len(places) == 1:
        return [places[0] - 0.5, places[0] + 0.5]
    between = [(one + other) / 2 for one, other in pairwise(places)]
    return [2 * places[0] - between[0], *between, 2 * places[-1] - between[-1]]


_KINDS = {"scatter": _scatter, "bar": _bar, "heatmap": _heatmap}


def _some(count: int) -> list[int]:
    """Evenly spaced places among so many, `_CELLS` of them at most."""
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
