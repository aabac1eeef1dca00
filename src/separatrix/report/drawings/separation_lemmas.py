"""The lemmas of Deng, Song, Yuan and Zhou: entries against their bounds, rows with random signs, softmax regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, RED, Drawing, Value, figure

_FLOOR = -400.0
"""log10 of the least chance handed to a figure: it lies far below every axis."""


def _ticks(*values: float) -> dict[str, list[Any]]:
    return {"tickvals": list(values), "ticktext": [f"{value:g}" for value in values]}


@drawing
def entry_bounds(found: Sequence[Found]) -> Drawing:
    """Each part of a lemma: entry over bound, in every setting."""
    parts = [
        part for part in found[0].result["right"] if any(one.result["right"][part][2] is not None for one in found)
    ]
    relation = found[0].result["relation"]
    drawn = figure("entry / bound", "", log_x=True, height=150 + 34 * len(parts))
    symbols = {"=": "diamond", "<=": "triangle-left", ">=": "triangle-right"}
    words = {"=": "equal", "<=": "at most the bound", ">=": "at least the bound"}
    columns: dict[str, list[Value]] = {"part": [], "relation": [], "n": [], "d": [], "ratio": []}
    for kind, colour in zip(("=", "<=", ">="), (GREEN, BLUE, ORANGE), strict=True):
        x: list[float] = []
        y: list[str] = []
        for one in found:
            for part in parts:
                ratio = one.result["right"][part][2]
                if relation[part] == kind and ratio is not None:
                    x.append(ratio)
                    y.append(f"Part {part}")
                    for name, value in zip(
                        columns, (part, kind, one.parameters["n"], one.parameters["d"], ratio), strict=True
                    ):
                        columns[name].append(value)
        if x:
            marker = {"color": colour, "size": 10, "symbol": symbols[kind], "opacity": 0.75}
            drawn.add_trace(go.Scatter(name=words[kind], x=x, y=y, mode="markers", marker=marker))
    order = [f"Part {part}" for part in reversed(parts)]
    line = curve("the bound", [1, 1], [order[0], order[-1]], GREY, mode="lines", dash="dash")
    drawn.add_trace(line)
    drawn.update_yaxes(title_text="part", categoryorder="array", categoryarray=order)
    drawn.update_layout(legend={"y": -100 / (150 + 34 * len(parts))})
    compared = sum(row[0] for one in found for row in one.result["right"].values())
    wrong = sum(row[1] for one in found for row in one.result["right"].values())
    text = (
        f"Entries over their bounds, part by part, in {len(found)} settings: of {compared:,} comparisons {wrong} went "
        "against the lemma; those at most the bound are left of the line, those at least it right of it."
    )
    return Drawing(drawn, text, columns)


@drawing
def row_chances(found: Sequence[Found]) -> Drawing:
    """How often a row reaches its threshold, along the paths, and what the lemma allows."""
    shown = [one for one in found if len(one.result.get("log10_n", ())) > 1]
    paths = list(dict.fromkeys(one.parameters["path"] for one in shown))
    dashes = dict(zip(reversed(paths), ("solid", "dash", "dot"), strict=False))
    growth = ", ".join(f"{dash} for {path}" for path, dash in reversed(dashes.items()))
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the chance", log_x=True, height=480)
    kinds = list(dict.fromkeys(_row(one) for one in shown))
    columns: dict[str, list[Value]] = {name: [] for name in ("row", "path", "log10_n", "g", "log10_chance")}
    for one in shown:
        path, x = one.parameters["path"], one.result["log10_n"]
        y = [max(value, _FLOOR) for value in one.result["reaches"]]
        line = curve(_row(one), x, y, COLOURS[kinds.index(_row(one))], dash=dashes[path], legendgroup=_row(one))
        line.update(showlegend=path == paths[-1], hovertemplate=f"g = {path}<br>n = 10^%{{x:.3g}}<br>10^%{{y:.4g}}")
        drawn.add_trace(line)
        for log10_n, g, chance in zip(x, one.result["g"], one.result["reaches"], strict=True):
            here = (_row(one), path, log10_n, g, chance if math.isfinite(chance) else None)
            for column, value in zip(columns.values(), here, strict=True):
                column.append(value)
    ends = sorted({log10_n for one in shown for log10_n in one.result["log10_n"]})
    drawn.add_trace(curve("δ / n", ends, [-2 - log10_n for log10_n in ends], GREY, mode="lines", dash="longdash"))
    drawn.update_yaxes(range=[-60, 2])
    drawn.update_xaxes(**_ticks(2, 4, 8, 16, 30, 60, 120, 200))
    text = (
        f"The chance that a row reaches its threshold, against log n ({growth}): what the lemma calls rare falls below "
        "delta / n sooner or later, what it says happens often stays at one quarter."
    )
    return Drawing(drawn, text, columns)


def _row(one: Found) -> str:
    """How the legend names a kind of row: which, on which data, against which threshold."""
    model, row, a, margin = (one.parameters[name] for name in ("model", "row", "a", "margin"))
    cross = model == "cross"
    name = {"special": "row j<sub>2</sub>" if cross else "row j<sub>3</sub>", "other": "other rows"}.get(row, row)
    return f"{name}, a = {a}, tau = {margin if cross else f'c + {margin}'}"


@drawing
def regression_sums(found: Sequence[Found]) -> Drawing:
    """Lemmas 4.1 and 4.2: chances of large sums, and what is allowed."""
    rows = sorted((one.result for one in found if "enough" in one.result), key=lambda row: float(row["log10_n"]))
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the chance", log_x=True, height=460)
    x = [row["log10_n"] for row in rows]
    few = [(row["log10_n"], row["few"]) for row in rows if row["few"] is not None]
    series = (
        ("linear on D0, C = 2, all data", [row["enough"] for row in rows], BLUE),
        ("linear on D1, C = 3, all data", [row["others"][1] for row in rows], GREEN),
        ("softmax on D0, C = 2, all data", [max(row["others"][0], _FLOOR) for row in rows], ORANGE),
    )
    for name, y, colour in series:
        drawn.add_trace(curve(name, x, y, colour))
    drawn.add_trace(curve("linear on D0, C = 1.2, equal data", [k for k, _ in few], [y for _, y in few], RED))
    drawn.add_trace(curve("δ / n", x, [-2 - k for k in x], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[-60, 2])
    drawn.update_xaxes(range=[math.log10(0.28), math.log10(60)], **_ticks(0.3, 1, 2, 4, 10, 20, 50))
    columns: dict[str, list[Value]] = {
        "log10_n": list(x),
        "linear_d0": [row["enough"] for row in rows],
        "linear_d0_narrow": [row["few"] for row in rows],
        "softmax_d0": [row["others"][0] for row in rows],
        "linear_d1": [row["others"][1] for row in rows],
    }
    text = (
        "Bounds on the chance of a sum beyond the lemmas' bounds, over all data, against log n: with C = 2 or 3 they "
        "are below delta / n at every n; with C = 1.2 the exact chance, for equal data, is above it from n = 100 on."
    )
    return Drawing(drawn, text, columns)


@drawing
def regression_failures(found: Sequence[Found]) -> Drawing:
    """Lemmas 5.1 to 5.4: chances that a part fails, and what is allowed."""
    paths = {one.parameters["width"]: one.result for one in found if "sample" in one.result}
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the chance of failure", log_x=True, height=460)
    wide, narrow = paths[1.5], paths[1.0]
    x = wide["log10_n"]
    series = (
        ("softmax fires on D0", wide["exp_silent_on_d0"], ORANGE, "solid"),
        ("linear fires on D0", wide["lin_silent_on_d0"], BLUE, "solid"),
        ("linear fires on D1", wide["lin_silent_on_d1"], GREEN, "solid"),
        ("softmax silent on D1, C = 1.5", wide["exp_fires_on_d1"], RED, "solid"),
        ("softmax silent on D1, C = 1", narrow["exp_fires_on_d1"], RED, "dot"),
    )
    for name, y, colour, dash in series:
        drawn.add_trace(curve(name, x, [max(value, _FLOOR) for value in y], colour, dash=dash))
    drawn.add_trace(curve("δ / n", x, [-2 - k for k in x], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[-32, 1])
    drawn.update_xaxes(range=[0, math.log10(30)], **_ticks(1, 2, 3, 5, 10, 20, 30))
    columns: dict[str, list[Value]] = {"log10_n": list(x)}
    columns |= {name: list(y) for name, y, _, _ in series}
    text = (
        "Bounds over all data on the chance that a network does the wrong thing, tau = 1/4: from n = 10^5 on the three "
        "silent networks are below delta / n; softmax on D1 is below it with C = 1.5 and not with C = 1."
    )
    return Drawing(drawn, text, columns)
