"""Figures as declarations: curves and maps of a table of rows, and the registry of all figures.

Most figures are curves, with one curve for each group of rows, or maps of two columns. Such a figure is declared::

    @Curves(
        x=Axis("length n", "n", log=True),
        y=Axis("flops counted", log=True),
        series=Curve("flops", "d = {d}"),
        by=("d",),
        columns=("d", "n", "flops"),
    )
    def flops_by_length(results: Results) -> Chart:
        rows = sorted(rows_of(results), key=lambda row: (row["d"], row["n"]))
        return rows, f"The flops grow in proportion to n, to {rows[-1]['flops']:,}."

The function returns the rows and the text alternative of the figure, which is also its caption. A figure that needs
more is a function with the decorator `drawing`, which may begin with `Curves.figure` or `Map.figure` and add to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any, Literal

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.tables import Results, Row, columns_of, groups_of
from separatrix.report.theme import COLOURS, GREY, Drawing, figure

DrawingFunction = Callable[[Results], Drawing]
Chart = tuple[Sequence[Row], str]
"""The rows of a declared figure and its text alternative."""

FIGURES: dict[str, DrawingFunction] = {}


def drawing(function: DrawingFunction) -> DrawingFunction:
    """Register a function as the figure with the name of the function."""
    if function.__name__ in FIGURES:
        raise TypeError(f"two figures have the name {function.__name__}")
    FIGURES[function.__name__] = function
    return function


def curve(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, **more: Any) -> go.Scatter:
    """A line with markers."""
    line = {"color": colour, "dash": more.pop("dash", "solid")}
    return go.Scatter(name=name, x=list(x), y=list(y), mode=more.pop("mode", "lines+markers"), line=line, **more)


def tick_labels(values: Iterable[float]) -> dict[str, list[Any]]:
    """The settings of a Plotly axis with ticks at these values."""
    at = sorted(set(values))
    return {"tickvals": at, "ticktext": [f"{value:g}" for value in at]}


def error_bars(values: Sequence[float], low: Sequence[float], high: Sequence[float], **look: Any) -> dict[str, Any]:
    """Plotly's error bars that reach from `low` to `high` around `values`."""
    above = [top - value for top, value in zip(high, values, strict=True)]
    below = [value - bottom for bottom, value in zip(low, values, strict=True)]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, **look}


@dataclass(frozen=True)
class Axis:
    """The title of an axis, the column along it, its scale and its ticks.

    `range` is that of Plotly: in powers of ten on a logarithmic axis. `ticks` are the values with tick labels, or
    ``"data"`` for the values of the column.
    """

    title: str
    column: str = ""
    _: KW_ONLY
    log: bool = False
    range: tuple[float, float] | None = None
    ticks: Sequence[float] | Literal["data"] = ()
    dtick: float | str | None = None

    def __post_init__(self) -> None:
        if self.ticks == "data" and not self.column:
            raise TypeError(f"the axis {self.title!r} has no column from which its ticks could be taken")

    def settings(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The settings of this axis for these rows, other than its title and scale."""
        settings: dict[str, Any] = {} if self.range is None else {"range": list(self.range)}
        if self.dtick is not None:
            settings["dtick"] = self.dtick
        ticks = [row[self.column] for row in rows] if self.ticks == "data" else self.ticks
        return settings | (tick_labels(ticks) if ticks else {})


Look = str | Callable[[Row], str]
"""A colour, a dash or a symbol, or a function that chooses it from the first row of a group."""


def _look(look: Look, row: Row) -> str:
    return look if isinstance(look, str) else look(row)


@dataclass(frozen=True)
class Curve:
    """How a column is drawn: as one curve for each group of the rows that have the column.

    `label` is a format string of the columns of the group's first row. Without a colour of its own, a curve has that of
    its group. `spread` names the columns of the least and the largest value, which become error bars.
    """

    column: str
    label: str
    colour: Look = ""
    _: KW_ONLY
    dash: Look = "solid"
    mode: Literal["lines", "markers", "lines+markers"] = "lines+markers"
    symbol: Look = ""
    size: int | None = None
    opacity: float | None = None
    spread: tuple[str, str] | None = None

    def trace(self, rows: Sequence[Row], x: str, group_colour: str, log: bool) -> go.Scatter:
        """The curve of a group of rows, without the values that a logarithmic axis cannot show."""
        first = rows[0]
        values = [row[self.column] for row in rows]
        drawable = [None if log and value is not None and value <= 0 else value for value in values]
        colour = _look(self.colour, first) or group_colour
        marker = {"symbol": _look(self.symbol, first) or None, "size": self.size, "opacity": self.opacity}
        look: dict[str, Any] = {"marker": marker} if any(marker.values()) else {}
        if self.mode == "markers":
            look["marker"] = {"color": colour, **marker}
        else:
            look["line"] = {"color": colour, "dash": _look(self.dash, first)}
        if self.spread is not None:
            low, high = ([row[name] for row in rows] for name in self.spread)
            look["error_y"] = error_bars(values, low, high, thickness=1)
        name = self.label.format_map(first)
        return go.Scatter(name=name, x=[row[x] for row in rows], y=drawable, mode=self.mode, **look)


@dataclass(frozen=True)
class Bound:
    """A reference line: a number, or a function of x. With `first` it is drawn below the curves."""

    label: str
    y: float | Callable[[float], float]
    colour: str = GREY
    dash: str = "dash"
    first: bool = False

    def trace(self, values: Sequence[float]) -> go.Scatter:
        """The trace of the line for these sorted values of x."""
        x = values if callable(self.y) else [values[0], values[-1]]
        y = [self.y(value) if callable(self.y) else self.y for value in x]
        return curve(self.label, x, y, self.colour, mode="lines", dash=self.dash)


@dataclass(frozen=True, kw_only=True)
class _Declared:
    """The part that curves and maps have in common: the axes, the height, and the columns of the CSV file.

    As a decorator it registers a function as the figure of its name; `columns` are then the named columns of the
    function's rows, by default all of the first row.
    """

    x: Axis
    y: Axis
    height: int = 420
    columns: Sequence[str] = ()

    def __call__(self, function: Callable[[Results], Chart]) -> DrawingFunction:
        @wraps(function)
        def draw(results: Results) -> Drawing:
            rows, text = function(results)
            return Drawing(self.figure(rows), text, columns_of(rows, *(self.columns or rows[0])))

        return drawing(draw)

    def figure(self, rows: Iterable[Row]) -> go.Figure:
        """The figure of these rows."""
        row_list = list(rows)
        drawn = figure(self.x.title, self.y.title, log_x=self.x.log, log_y=self.y.log, height=self.height)
        drawn.add_traces(self.traces(row_list))
        drawn.update_xaxes(**self.x.settings(row_list))
        drawn.update_yaxes(**self.y.settings(row_list))
        return drawn

    def traces(self, rows: Sequence[Row]) -> list[Any]:
        """The traces of these rows."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Curves(_Declared):
    """Curves of one column or several, for each group of rows that agree in the columns `by`.

    Groups are drawn in the order of their first rows, each in a colour of its own. Curves with the same label share an
    entry of the legend.
    """

    series: Curve | Sequence[Curve]
    by: Sequence[str] = ()
    bound: Bound | None = None
    colours: Sequence[str] = COLOURS

    def traces(self, rows: Sequence[Row]) -> list[go.Scatter]:
        """The curves, group by group, and the bound."""
        traces = []
        for index, group in enumerate(groups_of(rows, *self.by).values()):
            for declared in [self.series] if isinstance(self.series, Curve) else self.series:
                line = [row for row in group if declared.column in row]
                if line:
                    colour = self.colours[index % len(self.colours)]
                    traces.append(declared.trace(line, self.x.column, colour, self.y.log))
        labels = [trace.name for trace in traces]
        for at, trace in enumerate(traces):
            if labels.count(trace.name) > 1:
                trace.update(legendgroup=trace.name, showlegend=labels.index(trace.name) == at)
        if self.bound is not None:
            line = self.bound.trace(sorted({row[self.x.column] for row in rows}))
            traces.insert(0 if self.bound.first else len(traces), line)
        return traces


@dataclass(frozen=True, kw_only=True)
class Map(_Declared):
    """A heat map of the column `z` over the two columns of the axes; values along an axis are in the order of their
    first occurrence.

    `look` are further arguments of Plotly's heatmap.
    """

    z: str
    hover: str
    look: Mapping[str, Any]

    def trace(self, rows: Sequence[Row]) -> go.Heatmap:
        """The heat map; pairs of values without a row are empty."""
        x, y = (list(dict.fromkeys(row[axis.column] for row in rows)) for axis in (self.x, self.y))
        known = {(row[self.x.column], row[self.y.column]): row[self.z] for row in rows}
        z = [[known.get((across, up)) for across in x] for up in y]
        return go.Heatmap(x=x, y=y, z=z, hovertemplate=f"{self.hover}<extra></extra>", **self.look)

    def traces(self, rows: Sequence[Row]) -> list[go.Heatmap]:
        """The heat map as the only trace."""
        return [self.trace(rows)]
