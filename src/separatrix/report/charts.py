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

The function returns the rows and the text alternative of the figure, which is also its caption. If the rows of the CSV
file differ from those of the figure, the function returns them as a third value. A figure that needs more is a function
with the decorator `drawing`, which may begin with `Curves.figure` or `Map.figure` and add to it.
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
Chart = tuple[Sequence[Row], str] | tuple[Sequence[Row], str, Sequence[Row]]
"""The rows of a declared figure, its text alternative and, if they are others, the rows of its CSV file."""

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

    `title` is a format string of the columns of the figure's first row. `range` is that of Plotly: in powers of ten on
    a logarithmic axis. `ticks` are the values with tick labels, or ``"data"`` for the values of the column.
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
    """The drawing of a column: one curve for each group of the rows that have the column.

    `label` is a format string of the columns of the group's first row. A curve without a colour has the colour of its
    group. `spread` names the columns of the least and the largest value, which become error bars. `hover` is the text
    at the pointer, a format string as `label` is.
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
    spread_thickness: float = 1
    width: float | None = None
    hover: str = ""

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
            look["line"] = {"color": colour, "dash": _look(self.dash, first), "width": self.width}
        if self.spread is not None:
            low, high = ([row[name] for row in rows] for name in self.spread)
            look["error_y"] = error_bars(values, low, high, thickness=self.spread_thickness)
        if self.hover:
            look["hovertemplate"] = self.hover.format_map(first)
        name = self.label.format_map(first)
        return go.Scatter(name=name, x=[row[x] for row in rows], y=drawable, mode=self.mode, **look)


@dataclass(frozen=True)
class Bound:
    """A reference line: a number, a column whose first value is the number, or a function of x.

    With `first` it is drawn below the curves.
    """

    label: str
    y: float | str | Callable[[float], float]
    colour: str = GREY
    dash: str = "dash"
    first: bool = False

    def trace(self, rows: Sequence[Row], x_column: str) -> go.Scatter:
        """The trace of the line from the least to the largest x of these rows."""
        values = sorted({row[x_column] for row in rows})
        if callable(self.y):
            x, y = values, [self.y(value) for value in values]
        else:
            x, y = [values[0], values[-1]], [rows[0][self.y] if isinstance(self.y, str) else self.y] * 2
        return curve(self.label, x, y, self.colour, mode="lines", dash=self.dash)


@dataclass(frozen=True)
class Level:
    """A thin horizontal line across the figure, with a label at one of its ends."""

    y: float
    label: str
    position: Literal["top left", "top right"] = "top right"


@dataclass(frozen=True, kw_only=True)
class _Declared:
    """The part that curves and maps have in common: the axes, the size, and the columns of the CSV file.

    The height grows by `height_per_trace` with each trace, for a legend of many entries. `vertical` is a column whose
    first value is the place of a thin vertical line with the dash `vertical_dash`. As a decorator it registers a
    function as the figure of its name; `columns` are then the named columns of the CSV file's rows, by default all of
    the first row.
    """

    x: Axis
    y: Axis
    height: int = 420
    height_per_trace: int = 0
    legend_y: float | None = None
    levels: Sequence[Level] = ()
    vertical: str = ""
    vertical_dash: str = "dash"
    columns: Sequence[str] = ()

    def __call__(self, function: Callable[[Results], Chart]) -> DrawingFunction:
        @wraps(function)
        def draw(results: Results) -> Drawing:
            rows, text, *tables = function(results)
            table = tables[0] if tables else rows
            return Drawing(self.figure(rows), text, columns_of(table, *(self.columns or table[0])))

        return drawing(draw)

    def figure(self, rows: Iterable[Row]) -> go.Figure:
        """The figure of these rows."""
        row_list = list(rows)
        traces = self.traces(row_list)
        titles = (axis.title.format_map(row_list[0]) for axis in (self.x, self.y))
        height = self.height + self.height_per_trace * len(traces)
        drawn = figure(*titles, log_x=self.x.log, log_y=self.y.log, height=height)
        drawn.add_traces(traces)
        drawn.update_xaxes(**self.x.settings(row_list))
        drawn.update_yaxes(**self.y.settings(row_list))
        line = {"color": GREY, "width": 1}
        for level in self.levels:
            drawn.add_hline(level.y, line=line, annotation_text=level.label, annotation_position=level.position)
        if self.vertical:
            drawn.add_vline(row_list[0][self.vertical], line={**line, "dash": self.vertical_dash})
        if self.legend_y is not None:
            drawn.update_layout(legend={"y": self.legend_y})
        return drawn

    def traces(self, rows: Sequence[Row]) -> list[Any]:
        """The traces of these rows."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Curves(_Declared):
    """Curves of one column or several, for each group of rows that agree in the columns `by`.

    Groups are drawn in the order of their first rows, in different colours. Curves with the same label share an
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
            traces.insert(0 if self.bound.first else len(traces), self.bound.trace(rows, self.x.column))
        return traces


@dataclass(frozen=True, kw_only=True)
class Map(_Declared):
    """A heat map of the column `z` over the two columns of the axes; values along an axis are in the order of their
    first occurrence.

    `text` is a column whose values are the texts of the entries; `look` are further arguments of Plotly's heatmap.
    """

    z: str
    hover: str
    look: Mapping[str, Any]
    text: str = ""

    def trace(self, rows: Sequence[Row]) -> go.Heatmap:
        """The heat map; pairs of values without a row are empty."""
        x, y = (list(dict.fromkeys(row[axis.column] for row in rows)) for axis in (self.x, self.y))
        known = {(row[self.x.column], row[self.y.column]): row for row in rows}

        def entries(column: str) -> list[list[Any]]:
            return [[known.get((across, up), {}).get(column) for across in x] for up in y]

        look = {**self.look, "text": entries(self.text)} if self.text else self.look
        return go.Heatmap(x=x, y=y, z=entries(self.z), hovertemplate=f"{self.hover}<extra></extra>", **look)

    def traces(self, rows: Sequence[Row]) -> list[go.Heatmap]:
        """The heat map as the only trace."""
        return [self.trace(rows)]
