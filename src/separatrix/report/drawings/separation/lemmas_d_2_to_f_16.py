"""Lemmas D.2 to F.16 of Deng, Song, Yuan and Zhou: entries against their bounds, and probabilities of single rows."""

from __future__ import annotations

import math
import re

from separatrix.claims.ledger import CellResult
from separatrix.claims.separation.row_lemmas import LESS_D
from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves, curve, drawing
from separatrix.report.tables import Results, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, Drawing

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
            "place": _part(part),
        }
        for relation in _RELATIONS
        for cell in results
        for part, (_, _, ratio) in cell.result["right"].items()
        if relations[part] == relation and ratio is not None
    ]
    drawn_parts = {row["part"] for row in rows}
    order = [_part(part) for part in reversed(results[0].result["right"]) if part in drawn_parts]
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
        f"Entries over their bounds, part by part, in {len(results)} settings: {sum(row[1] for row in counts)} of "
        f"{sum(row[0] for row in counts):,} comparisons contradict the lemma. Entries with an upper bound are left of "
        "the line, entries with a lower bound right of it."
    )
    return Drawing(drawn, text, columns_of(rows, "part", "relation", "n", "d", "ratio"))


@Curves(
    series=Curve(
        "height",
        "{row}",
        colour=lambda row: row["colour"],
        dash=lambda row: row["dash"],
        hover="g = {path}<br>n = 10^%{{x:.3g}}<br>10^%{{y:.4g}}",
    ),
    by=("cell",),
    x=Axis("log<sub>10</sub> n", "log10_n", log=True, ticks=(2, 4, 8, 16, 30, 60, 120, 200)),
    y=Axis("log<sub>10</sub> of the probability", range=(-60, 2)),
    bound=Bound("δ / n", lambda log10_n: -2 - log10_n, dash="longdash"),
    height=480,
    columns=("row", "path", "log10_n", "g", "log10_chance"),
)
def row_chances(results: Results) -> Chart:
    """The probability that a row reaches its threshold along the paths, and the bound of the lemma."""
    along = [cell for cell in results if "reaches" in cell.result and cell.parameters["path"] not in LESS_D]
    # A margin of 0 is used only for a wrong neighbour.
    cells = [cell for cell in along if cell.parameters["margin"] != "0"]
    paths = sorted({cell.parameters["path"] for cell in cells}, key=lambda path: float(path.removeprefix("n^")))
    dashes = dict(zip(reversed(paths), ("solid", "dash", "dot", "dashdot"), strict=False))
    growth = ", ".join(f"{dash} for {path}" for path, dash in reversed(dashes.items()))
    kinds = list(dict.fromkeys(map(_row, cells)))
    curves = [
        {
            **cell.result,
            "cell": number,
            "row": _row(cell),
            "path": cell.parameters["path"],
            "dash": dashes[cell.parameters["path"]],
            "colour": COLOURS[kinds.index(_row(cell)) % len(COLOURS)],
            "log10_chance": [finite(chance) for chance in cell.result["reaches"]],
            "height": [max(chance, FLOOR) for chance in cell.result["reaches"]],
        }
        for number, cell in enumerate(cells)
    ]
    return one_row_per_entry(curves, "log10_n", "g", "log10_chance", "height"), (
        f"The probability that a row reaches its threshold, against log n ({growth}): the events that the lemma calls "
        "rare fall below delta / n for large n, the frequent ones stay at one quarter."
    )


def _part(part: str) -> str:
    """The label of a part, with a subscript."""
    return re.sub(r"j_(\d)", r"j<sub>\1</sub>", f"Part {part}")


def finite(value: float) -> float | None:
    """The value, or None if it is infinite, because a table cannot contain infinity."""
    return value if math.isfinite(value) else None


def _row(cell: CellResult) -> str:
    """The legend entry of a kind of row: the row, its data and its threshold."""
    model, row, a, margin = (cell.parameters[name] for name in ("model", "row", "a", "margin"))
    cross = model.startswith("cross")
    name = {"special": "row j<sub>2</sub>" if cross else "row j<sub>3</sub>", "other": "other rows"}.get(row, row)
    special = re.sub(r"\^([\d.]+)", r"<sup>\1</sup>", str(a))
    return f"{name}, a = {special}, τ = {margin if cross else f'c + {margin}'}"
