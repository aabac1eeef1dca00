"""Figures 3, 4, 5 and 7 of Deng, Song, Yuan and Zhou: exact probabilities and Monte Carlo estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.report.charts import curve, drawing, error_bars
from separatrix.report.tables import Results, columns_of, one_row_per_entry, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, THEME, Drawing, Value
from separatrix.separation import PANELS, wilson

_SUBSCRIPT = {"a0": "a<sub>0</sub>", "a1": "a<sub>1</sub>"}
_FILL = {BLUE: "rgba(47, 127, 193, 0.3)", GREEN: "rgba(0, 158, 115, 0.14)"}


def area(name: str, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> go.Scatter:
    """The area between two curves."""
    outline = {"x": [*x, *reversed(x)], "y": [*low, *reversed(high)]}
    line = {"width": 0, "color": colour}
    return go.Scatter(name=name, **outline, fill="toself", fillcolor=_FILL[colour], mode="lines", line=line)


def _range(x: Sequence[float], inside: Sequence[bool]) -> go.Scatter | None:
    """Shade the part of the axis where the hypotheses hold; a single point is drawn half a step wide."""
    within = [value for value, holds in zip(x, inside, strict=True) if holds]
    if not within:
        return None
    step = (max(x) - min(x)) / (4 * len(x)) if len(within) == 1 else 0.0
    ends = [within[0] - step, within[-1] + step]
    return area("this axis within its stated range", ends, [0, 0], [1, 1], GREEN)


def _simulated(x: Sequence[float], hits: Sequence[int | None], trials: int) -> go.Scatter:
    """The Monte Carlo estimates, each with its 95% Wilson interval."""
    points = [(value, wilson(hit, trials)) for value, hit in zip(x, hits, strict=True) if hit is not None]
    y, low, high = zip(*((estimate.value, estimate.low, estimate.high) for _, estimate in points), strict=True)
    return go.Scatter(
        name=f"simulated, {trials} trials, 95% intervals",
        x=[value for value, _ in points],
        y=y,
        mode="markers",
        error_y=error_bars(y, low, high, thickness=1, width=0, color="rgba(230, 159, 0, 0.55)"),
        marker={"color": ORANGE, "size": 4},
    )


def _columns(results: Results) -> dict[str, list[Value]]:
    cells = [{**row, "panel": row["name"], "axis": PANELS[row["name"]].axis} for row in rows_of(results)]
    rows = one_row_per_entry(cells, "x", "low", "high", "hits", "inside")
    names = ("panel", "reading", "axis", "x", "low", "high", "hits", "trials", "inside")
    return columns_of([{**row, "inside": int(row["inside"])} for row in rows], *names)


def _panels(results: Results, titles: Mapping[str, str]) -> go.Figure:
    """The panels of a figure, one below the other, so that they fit narrow screens."""
    printed = {cell.parameters["name"]: cell.result for cell in results if cell.parameters["reading"] == "as printed"}
    corrected = {cell.parameters["name"]: cell.result for cell in results if cell.parameters["reading"] != "as printed"}
    count = len(printed)
    drawn = make_subplots(
        rows=count, cols=1, vertical_spacing=0.34 / count, subplot_titles=[titles[name] for name in printed]
    )
    drawn.update_layout(template=THEME, height=250 * count + 60, margin={"t": 40, "l": 50}, legend={"y": -0.34 / count})
    drawn.update_annotations(font_size=13, x=0, xanchor="left")
    labelled: set[str] = set()
    for row, (name, result) in enumerate(printed.items(), start=1):
        x, low, high = result["x"], result["low"], result["high"]
        traces = [_range(x, result["inside"])]
        if max(h - p for p, h in zip(low, high, strict=True)) > 1e-3:
            traces.append(area("certified bounds", x, low, high, BLUE))
        traces.append(curve("exact", x, [(p + h) / 2 for p, h in zip(low, high, strict=True)], BLUE, mode="lines"))
        if name in corrected:
            y = corrected[name]["low"]
            traces.append(curve("exact, with d = 11", corrected[name]["x"], y, GREY, mode="lines", dash="dot"))
        if any(hit is not None for hit in result["hits"]):
            traces.append(_simulated(x, result["hits"], result["trials"]))
        for trace in filter(None, traces):
            trace.update(legendgroup=trace.name, showlegend=trace.name not in labelled)
            labelled.add(trace.name)
            drawn.add_trace(trace, row=row, col=1)
        axis = PANELS[name].axis
        drawn.update_xaxes(title_text=_SUBSCRIPT.get(axis, axis), row=row, col=1)
        drawn.update_yaxes(range=[0.78 if min(low) > 0.8 else -0.03, 1.03], row=row, col=1)
    drawn.update_yaxes(title_text="success")
    return drawn


def _spread(result: Mapping[str, Any]) -> str:
    return f"{min(result['low']):.2f} to {max(result['high']):.2f}"


@drawing
def figure_3(results: Results) -> Drawing:
    """Figure 3: the success probability of softmax regression, against n and against m."""
    a, b = results[0].result, results[1].result
    drawn = _panels(results, {"3a": "(a) m = log n", "3b": "(b) n = 1000"})
    text = (
        f"Success of softmax regression: over n with m = log n it goes from {_spread(a)}, in steps because m is an "
        f"integer; over m at n = 1000 from {_spread(b)}. The simulated points lie on the curves."
    )
    return Drawing(drawn, text, _columns(results))


def _self_titles(figure: str) -> dict[str, str]:
    fixed = "n = 200, d = 22"
    titles = ("d = 12", "n = 256", fixed, fixed, fixed, f"{fixed}, b = 0.2")
    return {f"{figure}{letter}": f"({letter}) {title}" for letter, title in zip("abcdef", titles, strict=True)}


@drawing
def figure_4(results: Results) -> Drawing:
    """Figure 4: the success probability of self-attention with identity weights, against each parameter."""
    by = {cell.parameters["name"]: cell.result for cell in results}
    text = (
        f"Success with identity weights: {_spread(by['4a'])} over n, {_spread(by['4b'])} over d; over m it rises and "
        f"falls, over a1 it peaks at {max(by['4d']['high']):.2f}, it falls with a0. Simulated points follow the curves."
    )
    return Drawing(_panels(results, _self_titles("4")), text, _columns(results))


@drawing
def figure_5(results: Results) -> Drawing:
    """Figure 5: the success probability of self-attention with weights of all ones, against each parameter."""
    by = {cell.parameters["name"]: cell.result for cell in results}
    text = (
        f"Success with weights all ones: {_spread(by['5a'])} over n, {_spread(by['5b'])} over d; over m it rises and "
        f"falls, over a1 it peaks at {max(by['5d']['high']):.2f}, it falls with a0. Simulated points follow the curves."
    )
    return Drawing(_panels(results, _self_titles("5")), text, _columns(results))


@drawing
def figure_7(results: Results) -> Drawing:
    """Figure 7: the success probability of cross-attention, against each parameter."""
    by = {cell.parameters["name"]: cell.result for cell in results if cell.parameters["reading"] == "as printed"}
    fixed = "n = 200"
    titles = ("d = 11", fixed, f"{fixed}, d = 11", f"{fixed}, d = 12", f"{fixed}, d = 12")
    drawn = _panels(results, {f"7{x}": f"({x}) {title}" for x, title in zip("abcde", titles, strict=True)})
    text = (
        f"Success of cross-attention: {_spread(by['7a'])} over n, {_spread(by['7b'])} over d; over m it rises, then "
        "falls slowly; it rises with a1 and falls with a0. With d = 11 instead of 12 the last two change slightly."
    )
    return Drawing(drawn, text, _columns(results))
