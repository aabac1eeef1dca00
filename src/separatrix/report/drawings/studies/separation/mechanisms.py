"""Other mechanisms on the paper's data: at its sizes, as n grows, against the margin, and in softmax regression."""

from __future__ import annotations

from itertools import product
from statistics import mean

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Chart, Map, curve, drawing, error_bars
from separatrix.report.tables import Results, Row, columns_of, groups_of, one_row_per_entry, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SCALE, SKY, THEME, Drawing, figure
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


@Map(
    x=Axis("setting", "short"),
    y=Axis("mechanism", "mechanism"),
    z="success",
    hover="%{y}<br>%{x}<br>success %{z:.4f}",
    height=500,
    look={"zmin": 0, "zmax": 1, "texttemplate": "%{z:.3f}", "colorscale": SCALE, "showscale": False},
    columns=("setting", "mechanism", "success", "separates"),
)
def mechanisms_at_the_papers_sizes(results: Results) -> Chart:
    """A heat map of the success of each mechanism in each setting, averaged over draws of random features."""
    success, separates = by_mechanism(results, "success"), by_mechanism(results, "separates")
    rows = [
        {
            "setting": setting,
            "short": setting.removeprefix("self-attention, ").removesuffix("-attention"),
            "mechanism": name,
            "success": mean(success[setting, name]),
            "separates": mean(separates[setting, name]),
        }
        for setting in SETTINGS
        for name in EVERY
    ]
    text = (
        "Success of each mechanism in the three settings at the paper's sizes: softmax at most temperatures and order "
        "3 share the top, feature maps are far below, and the identity is at zero."
    )
    return sorted(rows, key=lambda row: EVERY.index(row["mechanism"]), reverse=True), text, rows


def _panels(x: str) -> go.Figure:
    """Probabilities of separation against `x`, one panel below the other, so that they fit narrow screens."""
    titles = list(SETTINGS)
    drawn = make_subplots(rows=len(titles), cols=1, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.06)
    drawn.update_layout(template=THEME, height=900, legend={"y": -0.12}, margin={"t": 40})
    drawn.update_xaxes(type="log", exponentformat="power", dtick=1)
    drawn.update_xaxes(title_text=x, row=len(SETTINGS), col=1)
    drawn.update_yaxes(title_text="separates", range=[-0.05, 1.05])
    return drawn


@drawing
def mechanisms_as_n_grows(results: Results) -> Drawing:
    """The exact probability of separation against n, one panel per setting."""
    rows = rows_of(results)
    drawn = _panels("length n")
    lines = groups_of(rows, "setting", "mechanism")
    for setting, (name, (colour, dash)) in product(SETTINGS, _LOOK.items()):
        if (setting, name) in lines:
            n, separates = columns_of(lines[setting, name], "n", "separates").values()
            look = {"dash": dash, "legendgroup": name, "showlegend": setting == SETTINGS[0]}
            drawn.add_trace(curve(_label(name), n, separates, colour, **look), row=1 + SETTINGS.index(setting), col=1)
    text = (
        "The exact probability of separating at the paper's tau, against n: softmax and order 3 stay level, every "
        "feature map of linear attention drops to zero by n = 10^4, and other temperatures fall later."
    )
    return Drawing(drawn, text, columns_of(rows, "setting", "mechanism", "n", "separates", "success"))


@drawing
def separation_against_margin(results: Results) -> Drawing:
    """The probability at the best tau against the margin, one panel per setting; the identity at three lengths."""
    cells = [{**row, "margin": row["margins"]} for row in rows_of(results)]
    drawn = _panels("margin, in units of τ")
    drawn.update_xaxes(dtick=2)  # with a label at each power of ten, labels would touch on a phone
    for cell in cells:
        setting, name, n = (cell[key] for key in ("setting", "mechanism", "n"))
        long = n > cells[0]["n"]
        if name in _LOOK and not (long and name == "softmax"):
            colour, dash = (GREY, "dash" if n == 2_000 else "dot") if long else _LOOK[name]
            label = f"{_label(name)}, n = {n}" if long else _label(name)
            look = {"dash": dash, "legendgroup": label, "showlegend": setting == SETTINGS[0]}
            line = curve(label, cell["margins"], cell["best"], colour, **look)
            drawn.add_trace(line, row=1 + SETTINGS.index(setting), col=1)
    text = (
        "The probability of separating at the best tau, against the required margin: linear attention separates "
        "sometimes, at margins that shrink as 1/n, and softmax nearly always, at margins above a tenth of tau."
    )
    rows = one_row_per_entry(cells, "margin", "best", "tau")
    return Drawing(drawn, text, columns_of(rows, "setting", "mechanism", "n", "margin", "best", "tau"))


@drawing
def mechanisms_in_regression(results: Results) -> Drawing:
    """Softmax regression: simulated success with its confidence interval, one line per mechanism."""
    cells = rows_of(results)[::-1]
    rows: list[Row] = [
        {
            "mechanism": row["mechanism"],
            **dict(zip(("success", "low", "high"), row["success"], strict=True)),
            "silent_on_d0": row["silent_on_d0"][0],
        }
        for row in cells
    ]
    names, value, low, high = ([row[name] for row in rows] for name in ("mechanism", "success", "low", "high"))
    drawn = figure("success, 95 % interval", "mechanism", height=460)
    look = {"marker": {"color": BLUE, "size": 9}, "error_x": error_bars(value, low, high, color=BLUE)}
    drawn.add_trace(go.Scatter(name="success", x=value, y=names, mode="markers", **look))
    drawn.update_xaxes(range=[-0.03, 1.03])
    drawn.update_layout(showlegend=False)
    text = (
        f"Success of each mechanism in softmax regression at n = {cells[0]['n']}, in {cells[0]['trials']} trials: "
        "softmax and order 3 with both values are near one, order 3 with one and colder softmax lower, random features "
        "near a twelfth in each of their draws, the four feature maps at zero."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))


def _label(mechanism: str) -> str:
    """The legend entry of a mechanism."""
    return mechanism.replace("beta", "β")
