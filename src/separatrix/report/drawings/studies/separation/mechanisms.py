"""Other mechanisms on the paper's data: at its sizes, as n grows, against the margin, and in softmax regression."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SCALE, SKY, THEME, Drawing, Value, figure
from separatrix.studies.separation.mechanisms import EVERY, ORDER3, SETTINGS, by_mechanism

_LOOK = {
    "softmax": (BLUE, "solid"),
    "softmax, beta = 0.25": (SKY, "dot"),
    "softmax, beta = 0.5": (SKY, "dash"),
    "softmax, beta = 4": (BLUE, "dashdot"),
    ORDER3[0]: (GREEN, "dash"),
    ORDER3[1]: (GREEN, "dot"),
    "linear, identity": (RED, "solid"),
    "linear, elu": (ORANGE, "dash"),
    "linear, taylor2": (PURPLE, "dash"),
}


@drawing
def mechanisms_at_the_papers_sizes(found: Sequence[Found]) -> Drawing:
    """A table in colours: success of each mechanism in each setting, the mean over draws of random features."""
    success, separates = by_mechanism(found, "success"), by_mechanism(found, "separates")
    drawn = figure("setting", "mechanism", height=500)
    names = EVERY[::-1]
    z = [[mean(success[setting, name]) for setting in SETTINGS] for name in names]
    short = [setting.removeprefix("self-attention, ").removesuffix("-attention") for setting in SETTINGS]
    drawn.add_trace(
        go.Heatmap(
            x=short,
            y=names,
            z=z,
            zmin=0,
            zmax=1,
            texttemplate="%{z:.3f}",
            colorscale=SCALE,
            showscale=False,
            hovertemplate="%{y}<br>%{x}<br>success %{z:.4f}<extra></extra>",
        )
    )
    columns: dict[str, list[Value]] = {name: [] for name in ("setting", "mechanism", "success", "separates")}
    for setting in SETTINGS:
        for name in EVERY:
            row: tuple[Value, ...] = (setting, name, mean(success[setting, name]), mean(separates[setting, name]))
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    text = (
        "Success of each mechanism in the three settings at the paper's sizes: softmax at most temperatures and order "
        "3 share the top, feature maps are far below, and the identity is at zero."
    )
    return Drawing(drawn, text, columns)


@drawing
def mechanisms_as_n_grows(found: Sequence[Found]) -> Drawing:
    """The exact rate of separating against n, a setting a panel."""
    rows = rows_of(found)
    drawn = _panels()
    for at, setting in enumerate(SETTINGS, start=1):
        for name, (colour, dash) in _LOOK.items():
            line = [row for row in rows if (row["setting"], row["mechanism"]) == (setting, name)]
            if line:
                x, y = [row["n"] for row in line], [row["separates"] for row in line]
                drawn.add_trace(
                    curve(name, x, y, colour, dash=dash, legendgroup=name, showlegend=at == 1), row=at, col=1
                )
    drawn.update_xaxes(type="log", exponentformat="power", dtick=1)
    drawn.update_xaxes(title_text="length n", row=len(SETTINGS), col=1)
    drawn.update_yaxes(title_text="separates", range=[-0.05, 1.05])
    text = (
        "The exact probability of separating at the paper's tau, against n: softmax and order 3 stay level, every "
        "feature map of linear attention drops to zero by n = 10^4, and other temperatures fall later."
    )
    return Drawing(drawn, text, columns_of(rows, "setting", "mechanism", "n", "separates", "success"))


@drawing
def separation_against_margin(found: Sequence[Found]) -> Drawing:
    """The rate at the best tau against the margin asked for, a setting a panel; the identity at three lengths."""
    drawn = _panels()
    columns: dict[str, list[Value]] = {name: [] for name in ("setting", "mechanism", "n", "margin", "best", "tau")}
    for one in found:
        setting, name, n = (one.parameters[key] for key in ("setting", "mechanism", "n"))
        margins, best = one.parameters["margins"], one.result["best"]
        for row in zip(margins, best, one.result["tau"], strict=True):
            for column, value in zip(columns.values(), (setting, name, n, *row), strict=True):
                column.append(value)
        long = n > found[0].parameters["n"]
        if name in _LOOK and not (long and name == "softmax"):
            colour, dash = (GREY, "dash" if n == 2_000 else "dot") if long else _LOOK[name]
            label = f"{name}, n = {n}" if long else name
            shown = {"legendgroup": label, "showlegend": setting == SETTINGS[0]}
            at = 1 + SETTINGS.index(setting)
            drawn.add_trace(curve(label, margins, best, colour, dash=dash, **shown), row=at, col=1)
    drawn.update_xaxes(type="log", exponentformat="power", dtick=1)
    drawn.update_xaxes(title_text="margin, in units of tau", row=len(SETTINGS), col=1)
    drawn.update_yaxes(title_text="separates", range=[-0.05, 1.05])
    text = (
        "The probability of separating at the best tau, against the margin asked for: linear attention separates now "
        "and then, at margins that shrink as 1/n, and softmax nearly always, at margins above a tenth of tau."
    )
    return Drawing(drawn, text, columns)


@drawing
def mechanisms_in_regression(found: Sequence[Found]) -> Drawing:
    """Softmax regression: simulated success with its interval, a mechanism a line."""
    rows = rows_of(found)[::-1]
    drawn = figure("success, 95 % interval", "mechanism", height=460)
    names = [row["mechanism"] for row in rows]
    value, low, high = zip(*(row["success"] for row in rows), strict=True)
    error = {
        "array": [top - x for top, x in zip(high, value, strict=True)],
        "arrayminus": [x - bottom for bottom, x in zip(low, value, strict=True)],
        "color": BLUE,
    }
    marker = {"color": BLUE, "size": 9}
    drawn.add_trace(go.Scatter(name="success", x=value, y=names, mode="markers", marker=marker, error_x=error))
    drawn.update_xaxes(range=[-0.03, 1.03])
    drawn.update_layout(showlegend=False)
    columns: dict[str, list[Value]] = {"mechanism": names, "success": [*value], "low": [*low], "high": [*high]}
    columns["silent_on_d0"] = [row["silent_on_d0"][0] for row in rows]
    n, trials = rows[0]["n"], rows[0]["trials"]
    text = (
        f"Success of each mechanism in softmax regression at n = {n}, in {trials} trials: softmax and order 3 with "
        "both values are near one, order 3 with one and colder softmax lower, all feature maps at zero."
    )
    return Drawing(drawn, text, columns)


def _panels() -> go.Figure:
    """One panel below the other, so that a phone shows each at full width."""
    titles = list(SETTINGS)
    drawn = make_subplots(rows=len(titles), cols=1, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.06)
    drawn.update_layout(template=THEME, height=900, legend={"y": -0.12}, margin={"t": 40})
    return drawn
