"""Lemmas D.2 to F.16 of Deng, Song, Yuan and Zhou: entries against their bounds, and chances of single rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.claims.separation.row_lemmas import LESS_D
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, Drawing, Value, figure

FLOOR = -400.0
"""log10 of the least chance handed to a figure: it lies far below every axis."""


def power_ticks(*values: float) -> dict[str, list[Any]]:
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
    along = [one for one in found if "reaches" in one.result and one.parameters["path"] not in LESS_D]
    shown = [one for one in along if one.parameters["margin"] != "0"]  # those are of a wrong neighbour
    paths = sorted({one.parameters["path"] for one in shown}, key=lambda path: float(path.removeprefix("n^")))
    dashes = dict(zip(reversed(paths), ("solid", "dash", "dot", "dashdot"), strict=False))
    growth = ", ".join(f"{dash} for {path}" for path, dash in reversed(dashes.items()))
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the chance", log_x=True, height=480)
    kinds = list(dict.fromkeys(_row(one) for one in shown))
    columns: dict[str, list[Value]] = {name: [] for name in ("row", "path", "log10_n", "g", "log10_chance")}
    for one in shown:
        path, x = one.parameters["path"], one.result["log10_n"]
        y = [max(value, FLOOR) for value in one.result["reaches"]]
        line = curve(_row(one), x, y, COLOURS[kinds.index(_row(one))], dash=dashes[path], legendgroup=_row(one))
        first = one is next(other for other in shown if _row(other) == _row(one))
        line.update(showlegend=first, hovertemplate=f"g = {path}<br>n = 10^%{{x:.3g}}<br>10^%{{y:.4g}}")
        drawn.add_trace(line)
        for log10_n, g, chance in zip(x, one.result["g"], one.result["reaches"], strict=True):
            here = (_row(one), path, log10_n, g, chance if math.isfinite(chance) else None)
            for column, value in zip(columns.values(), here, strict=True):
                column.append(value)
    ends = sorted({log10_n for one in shown for log10_n in one.result["log10_n"]})
    drawn.add_trace(curve("δ / n", ends, [-2 - log10_n for log10_n in ends], GREY, mode="lines", dash="longdash"))
    drawn.update_yaxes(range=[-60, 2])
    drawn.update_xaxes(**power_ticks(2, 4, 8, 16, 30, 60, 120, 200))
    text = (
        f"The chance that a row reaches its threshold, against log n ({growth}): what the lemma calls rare falls below "
        "delta / n sooner or later, what it says happens often stays at one quarter."
    )
    return Drawing(drawn, text, columns)


def _row(one: Found) -> str:
    """How the legend names a kind of row: which, on which data, against which threshold."""
    model, row, a, margin = (one.parameters[name] for name in ("model", "row", "a", "margin"))
    cross = model.startswith("cross")
    name = {"special": "row j<sub>2</sub>" if cross else "row j<sub>3</sub>", "other": "other rows"}.get(row, row)
    return f"{name}, a = {a}, tau = {margin if cross else f'c + {margin}'}"
