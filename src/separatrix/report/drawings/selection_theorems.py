"""The theorems of Wang, Wei, Hsu and Lee on selection: the construction, fully-connected nets, times, lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.claims.selection.one_hot_time import exponents
from separatrix.report.strokes import columns_of, curve, drawing, rows_of, ticks
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, RED, Drawing, Value, figure


@drawing
def construction_error(found: Sequence[Found]) -> Drawing:
    """Theorem C.3: the largest error of the constructed transformer against epsilon."""
    rows = sorted(rows_of(found), key=lambda row: (row["T"], row["epsilon"]))
    drawn = figure("epsilon", "largest error", log_x=True, log_y=True)
    for T, colour in zip(sorted({row["T"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["T"] == T]
        x = [row["epsilon"] for row in line]
        drawn.add_trace(curve(f"T = {T}, our scale", x, [row["error"] for row in line], colour))
        proof = [row["proof_error"] for row in line]
        drawn.add_trace(curve(f"T = {T}, the proof's scale", x, proof, colour, dash="dot"))
    x = sorted({row["epsilon"] for row in rows})
    drawn.add_trace(curve("allowed", x, x, GREY, mode="lines", dash="dash"))
    text = (
        "The largest error over 400 subsets of tokens of norm 1 falls with epsilon and stays below it, at our scale of "
        "W and at that of the paper's proof."
    )
    names = ("T", "q", "epsilon", "error", "over_bound", "scale", "printed_scale", "proof_error", "overlap")
    return Drawing(drawn, text, columns_of(rows, *names))


@drawing
def fully_connected_widths(found: Sequence[Found]) -> Drawing:
    """Theorem 3.5: squared error against the width of the first layer, by the formula and by nets."""
    rows = rows_of(found)
    formula = max((row for row in rows if "eigenvalue_gap" in row), key=lambda row: row["T"] * row["d"])
    nets = sorted((row for row in rows if "floor" in row), key=lambda row: row["widths"][0])
    beside = next(row for row in rows if "width" in row and "squared_error" in row)
    drawn = figure("width of the first layer", "mean squared error", log_y=True, height=460)
    k = list(range(1, len(formula["infimum"]) - 1))
    drawn.add_trace(curve("infimum over all nets", k, formula["infimum"][1:-1], GREY, mode="lines"))
    near = {"color": GREY, "symbol": "circle-open", "size": 7}
    near_y = formula["near_optimal"][:-1]
    drawn.add_trace(go.Scatter(name="nets built to approach it", x=k, y=near_y, mode="markers", marker=near))
    columns: dict[str, list[Value]] = {name: [] for name in ("what", "first width", "squared error", "parameters")}

    def add(what: str, width: int, error: float, parameters: int | None) -> None:
        for name, value in zip(columns, (what, width, error, parameters), strict=True):
            columns[name].append(value)

    for width, low, near_by in zip(k, formula["infimum"][1:-1], near_y, strict=True):
        add("infimum", width, low, None)
        add("built net", width, near_by, None)
    labels = [f"{'-'.join(map(str, row['widths']))} {row['activation']}" for row in nets]
    shown = go.Scatter(
        name="trained nets",
        x=[row["widths"][0] for row in nets],
        y=[row["squared_error"] for row in nets],
        text=labels,
        customdata=[row["parameters"] for row in nets],
        hovertemplate="%{text}, %{customdata} parameters<br>squared error %{y:.4f}<extra></extra>",
        mode="markers",
        marker={"color": RED, "size": 10, "symbol": "diamond"},
    )
    drawn.add_trace(shown)
    for label, row in zip(labels, nets, strict=True):
        add(f"trained net {label}", row["widths"][0], row["squared_error"], row["parameters"])
    name = f"transformer, {beside['parameters']:,} parameters"
    star = {"color": BLUE, "size": 14, "symbol": "star"}
    drawn.add_trace(
        go.Scatter(name=name, x=[beside["width"]], y=[beside["squared_error"]], mode="markers", marker=star)
    )
    add("transformer", beside["width"], beside["squared_error"], beside["parameters"])
    text = (
        f"Squared error against the first width at T = {formula['T']}, q = {formula['q']}, d = {formula['d']}: trained "
        f"nets stay above the infimum for their width, down to {min(row['squared_error'] for row in nets):.2f}, and "
        f"the transformer reaches {beside['squared_error']:.3f}."
    )
    return Drawing(drawn, text, columns)


@drawing
def time_to_loss(found: Sequence[Found]) -> Drawing:
    """Theorem 3.1: counted steps against the law's, and the bound's."""
    rows = sorted(rows_of(found), key=lambda row: float(row["law"]))
    drawn = figure("steps by the law", "steps", log_x=True, log_y=True)
    names = {"T": "T varies", "d": "d varies", "epsilon": "epsilon varies", "lr": "the rate varies"}
    for (sweep, name), colour in zip(names.items(), COLOURS, strict=False):
        line = [row for row in rows if row["sweep"] == sweep]
        x = [row["law"] for row in line]
        drawn.add_trace(curve(name, x, [row["steps"] for row in line], colour, mode="markers"))
    ends = [rows[0]["law"], rows[-1]["law"]]
    drawn.add_trace(curve("the law", ends, ends, GREY, mode="lines", dash="dash"))
    shape = {"color": GREY, "symbol": "triangle-up-open", "size": 9}
    laws, bounds = ([row[name] for row in rows] for name in ("law", "bound"))
    drawn.add_trace(go.Scatter(name="the bound", x=laws, y=bounds, mode="markers", marker=shape))
    factor = min(row["bound"] / row["steps"] for row in rows)
    text = (
        "Steps to the loss epsilon against what the law gives, on logarithmic axes: counted times lie on it, and the "
        f"theorem's bound without its logarithms is at least {factor:.0f} times above."
    )
    return Drawing(drawn, text, columns_of(rows, "sweep", "T", "q", "d", "lr", "epsilon", "steps", "law", "bound"))


@drawing
def time_exponents(found: Sequence[Found]) -> Drawing:
    """Theorem 3.1: the powers of T, d, epsilon and the rate in the time."""
    powers = exponents(found)
    shown = {"T": "T", "d": "d", "epsilon": "epsilon", "lr": "rate"}
    drawn = figure("variable", "power in the steps", height=400)
    columns: dict[str, list[Value]] = {"variable": [shown[name] for name in powers]}
    for at, (name, colour) in enumerate((("counted", BLUE), ("by the law", GREEN), ("in the bound", ORANGE))):
        values = [power[at] for power in powers.values()]
        drawn.add_trace(go.Bar(name=name, x=columns["variable"], y=values, marker_color=colour))
        columns[name] = list(values)
    drawn.update_layout(barmode="group")
    drawn.add_hline(y=0, line={"color": GREY, "width": 1})
    measured = ", ".join(f"{power[0]:.2f} in {shown[name]}" for name, power in powers.items())
    text = f"The powers in the counted number of steps are {measured}; those of the bound are 2, 1, -1 and -1."
    return Drawing(drawn, text, columns)


@drawing
def population_tail(found: Sequence[Found]) -> Drawing:
    """Section 3.1: the population loss and the attention off the subset against eta t."""
    drawn = figure("time, eta t", "loss, and 1 - q s", log_x=True, log_y=True, height=460)
    columns: dict[str, list[Value]] = {name: [] for name in ("T", "q", "d", "eta t", "loss", "1 - q s")}
    for one, colour in zip(found, COLOURS, strict=False):
        sizes = f"T = {one.parameters['T']}, q = {one.parameters['q']}, d = {one.parameters['d']}"
        tau, loss, w = (one.result[name].tolist() for name in ("tau", "loss", "w"))
        drawn.add_trace(curve(f"{sizes}, loss", tau, loss, colour, mode="lines"))
        drawn.add_trace(curve(f"{sizes}, 1 - q s", tau, w, colour, mode="lines", dash="dot"))
        late = [time for time in tau if time > tau[-1] / 1e3]
        tail = [(one.parameters["T"] - 1) / (4 * time) for time in late]
        name = "(T - 1) / (4 eta t)"
        drawn.add_trace(
            curve(name, late, tail, GREY, mode="lines", dash="dash", legendgroup=name, showlegend=one is found[0])
        )
        for values in zip(tau, loss, w, strict=True):
            for column, value in zip(columns.values(), (*(one.parameters[x] for x in "Tqd"), *values), strict=True):
                column.append(value)
    text = (
        "On logarithmic axes the loss leaves its plateau and falls with slope -1 onto (T - 1) / (4 eta t), while the "
        "attention off the subset falls with slope -1/2."
    )
    return Drawing(drawn, text, columns)


@drawing
def length_ratio(found: Sequence[Found]) -> Drawing:
    """Corollary 3.6: the loss at T_2 over that at T_1, against T_1, by T_2 / T_1."""
    rows = sorted(rows_of(found), key=lambda row: int(row["T1"]))
    drawn = figure(
        "training length T<sub>1</sub>", "loss at T<sub>2</sub> over loss at T<sub>1</sub>", log_x=True, log_y=True
    )
    lengths = [row["T1"] for row in rows]
    for at, (times, colour) in enumerate(zip(rows[0]["times"], COLOURS, strict=False)):
        name = f"T<sub>2</sub> = {times:g} T<sub>1</sub>"
        drawn.add_trace(curve(name, lengths, [row["ratio"][at] for row in rows], colour))
        allowed = [row["corollary"][at] for row in rows]
        drawn.add_trace(curve(f"{times:g}<sup>2</sup>", lengths, allowed, colour, mode="lines", dash="dash"))
    ticks(drawn, lengths)
    columns: dict[str, list[Value]] = {name: [] for name in ("T1", "T2", "ratio", "limit", "corollary")}
    for row in rows:
        for values in zip(*(row[name] for name in ("T2", "ratio", "limit", "corollary")), strict=True):
            for column, value in zip(columns.values(), (row["T1"], *values), strict=True):
                column.append(value)
    text = (
        "Late in training the ratio of the loss at a longer length to the training loss grows in proportion to the "
        "training length, where the corollary has a constant, the square of the ratio of the lengths."
    )
    return Drawing(drawn, text, columns)


@drawing
def two_objectives(found: Sequence[Found]) -> Drawing:
    """Equation (4): the population loss under either objective along the paper's run."""
    result: Any = next(one.result for one in found if "mean of the loss" in one.result)
    drawn = figure("step", "loss", log_x=True, log_y=True)
    step = result["step"].tolist()
    columns: dict[str, list[Value]] = {"step": step}
    for name, colour in (("mean of the loss", BLUE), ("loss of the mean", ORANGE)):
        loss = result[name]["loss"].tolist()
        drawn.add_trace(curve(name, step, loss, colour, mode="lines"))
        columns[name] = loss
    last = [result[name]["last"] for name in ("mean of the loss", "loss of the mean")]
    text = (
        "Along the paper's run the mean of the loss over encodings, which training minimises, stays above the loss of "
        f"the mean output; they end at {last[0]:.5f} and {last[1]:.5f}."
    )
    return Drawing(drawn, text, columns)
