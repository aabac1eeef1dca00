"""Lemmas D.2 to F.16 of Deng, Song, Yuan and Zhou: entries against their bounds, and probabilities of single rows."""

from __future__ import annotations

import math

from separatrix.claims.ledger import CellResult
from separatrix.claims.separation.row_lemmas import LESS_D
from separatrix.report.charts import Axis, Curve, Curves, curve, drawing, tick_labels
from separatrix.report.tables import Results, Row, columns_of
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, Drawing, figure

FLOOR = -400.0
"""The smallest log10 of a probability that is drawn, far below every axis."""
_RELATIONS = {
    "=": ("equal", GREEN, "diamond"),
    "<=": ("at most the bound", BLUE, "triangle-left"),
    ">=": ("at least the bound", ORANGE, "triangle-right"),
}


@drawing
def entry_bounds(results: Results) -> Drawing:
    """The ratios of entries to their bounds, for each part of a lemma in every setting."""
    relations = results[0].result["relation"]
    rows = [
        {
            "part": part,
            "relation": relations[part],
            **{name: cell.parameters[name] for name in ("n", "d")},
            "ratio": ratio,
            "label": _RELATIONS[relations[part]][0],
            "place": f"Part {part}",
        }
        for relation in _RELATIONS
        for cell in results
        for part, (_, _, ratio) in cell.result["right"].items()
        if relations[part] == relation and ratio is not None
    ]
    drawn_parts = {row["part"] for row in rows}
    order = [f"Part {part}" for part in reversed(results[0].result["right"]) if part in drawn_parts]
    height = 150 + 34 * len(order)
    drawn = Curves(
        series=Curve(
            "place",
            "{label}",
            colour=lambda row: _RELATIONS[row["relation"]][1],
            mode="markers",
            symbol=lambda row: _RELATIONS[row["relation"]][2],
            size=10,
            opacity=0.75,
        ),
        by=("relation",),
        x=Axis("entry / bound", "ratio", log=True),
        y=Axis("part"),
        height=height,
    ).figure(rows)
    drawn.add_trace(curve("the bound", [1, 1], [order[0], order[-1]], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(categoryorder="array", categoryarray=order)
    drawn.update_layout(legend={"y": -100 / height})
    counts = [row for cell in results for row in cell.result["right"].values()]
    text = (
        f"Entries over their bounds, part by part, in {len(results)} settings: of {sum(row[0] for row in counts):,} "
        f"comparisons {sum(row[1] for row in counts)} went against the lemma; entries with an upper bound are left of "
        "the line, entries with a lower bound right of it."
    )
    return Drawing(drawn, text, columns_of(rows, "part", "relation", "n", "d", "ratio"))


@drawing
def row_chances(results: Results) -> Drawing:
    """The probability that a row reaches its threshold along the paths, and the bound of the lemma."""
    along = [cell for cell in results if "reaches" in cell.result and cell.parameters["path"] not in LESS_D]
    drawn_cells = [
        cell for cell in along if cell.parameters["margin"] != "0"
    ]  # a margin of 0 is used only for a wrong neighbour
    paths = sorted({cell.parameters["path"] for cell in drawn_cells}, key=lambda path: float(path.removeprefix("n^")))
    dashes = dict(zip(reversed(paths), ("solid", "dash", "dot", "dashdot"), strict=False))
    growth = ", ".join(f"{dash} for {path}" for path, dash in reversed(dashes.items()))
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the probability", log_x=True, height=480)
    colours: dict[str, str] = {}
    rows: list[Row] = []
    for cell in drawn_cells:
        kind, path, x = _row(cell), cell.parameters["path"], cell.result["log10_n"]
        first = kind not in colours
        colour = colours.setdefault(kind, COLOURS[len(colours) % len(COLOURS)])
        y = [max(value, FLOOR) for value in cell.result["reaches"]]
        hover = f"g = {path}<br>n = 10^%{{x:.3g}}<br>10^%{{y:.4g}}"
        look = {"dash": dashes[path], "legendgroup": kind, "showlegend": first, "hovertemplate": hover}
        drawn.add_trace(curve(kind, x, y, colour, **look))
        rows += [
            {"row": kind, "path": path, "log10_n": log10_n, "g": g, "log10_chance": finite(chance)}
            for log10_n, g, chance in zip(x, cell.result["g"], cell.result["reaches"], strict=True)
        ]
    ends = sorted({row["log10_n"] for row in rows})
    drawn.add_trace(curve("δ / n", ends, [-2 - log10_n for log10_n in ends], GREY, mode="lines", dash="longdash"))
    drawn.update_yaxes(range=[-60, 2])
    drawn.update_xaxes(**tick_labels((2, 4, 8, 16, 30, 60, 120, 200)))
    text = (
        f"The probability that a row reaches its threshold, against log n ({growth}): the events that the lemma calls "
        "rare fall below delta / n for large n, the frequent ones stay at one quarter."
    )
    return Drawing(drawn, text, columns_of(rows, "row", "path", "log10_n", "g", "log10_chance"))


def finite(value: float) -> float | None:
    """The value, or None for an infinite one, which no table can hold."""
    return value if math.isfinite(value) else None


def _row(cell: CellResult) -> str:
    """The legend entry of a kind of row: the row, its data and its threshold."""
    model, row, a, margin = (cell.parameters[name] for name in ("model", "row", "a", "margin"))
    cross = model.startswith("cross")
    name = {"special": "row j<sub>2</sub>" if cross else "row j<sub>3</sub>", "other": "other rows"}.get(row, row)
    return f"{name}, a = {a}, tau = {margin if cross else f'c + {margin}'}"
