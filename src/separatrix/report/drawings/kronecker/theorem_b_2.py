"""Theorem B.2 of Alman and Song: the lower bound in the plane of n and B."""

from __future__ import annotations

import math

from separatrix.report.charts import Axis, Chart, Curve, Curves, Map, curve, drawing
from separatrix.report.tables import Results, columns_of, rows_of
from separatrix.report.theme import BLUE, GREY, ORANGE, PURPLE, RED, SCALE, SKY, Drawing


@Curves(
    series=(
        Curve("cube_root", "(ln n)<sup>1/3</sup>", GREY, mode="lines"),
        Curve("constant_rank", "constant gap: rank exceeds n<sup>2</sup>", BLUE, mode="lines"),
        Curve("constant_exact", "constant gap: decided from", BLUE, mode="lines", dash="dash"),
        Curve("direct_rank", "direct reduction: rank exceeds n<sup>2</sup>", ORANGE, mode="lines"),
        Curve("direct_exact", "direct reduction: decided from", ORANGE, mode="lines", dash="dash"),
        Curve("border", "a formula: rank exceeds n<sup>2</sup>", RED, mode="markers", size=10, symbol="circle"),
        Curve("deciding", "a formula: decided from", PURPLE, mode="markers", size=10, symbol="diamond"),
    ),
    x=Axis("log<sub>2</sub> n", "log2_n"),
    y=Axis("entry bound B", log=True, ticks=(0.5, 1, 2, 5, 10, 20, 50)),
    height=520,
    columns=(
        "log2_n",
        "cube_root",
        "constant_rank",
        "constant_exact",
        "constant_rule",
        "direct_rank",
        "direct_exact",
        "border",
        "deciding",
    ),
)
def lower_bound_plane(results: Results) -> Chart:
    """Theorem B.2: the entry bounds at which near-linear attention becomes cubic and at which SAT is decided."""
    rows = sorted((row for row in rows_of(results) if "cube_root" in row), key=lambda row: int(row["log2_n"]))
    chain = sorted((row for row in rows_of(results) if "deciding" in row), key=lambda row: int(row["variables"]))
    last = rows[-1]
    return [*rows, *({**row, "log2_n": row["variables"] / 3} for row in chain)], (
        "B against n: on the chain's instances the polynomial method's rank passes n^2 below the B that decides them; "
        f"at n = 2^{last['log2_n']} and a constant gap at {last['constant_rank']:.2f} against "
        f"{last['constant_exact']:.2f}, with (ln n)^(1/3) = {last['cube_root']:.2f} between."
    )


_PHASE = Map(
    z="exponent",
    x=Axis("B / (ln n)<sup>1/3</sup>", "ratio", range=(0.02, 2.9)),
    y=Axis("log<sub>2</sub> n", "log2_n"),
    hover="n = 2^%{y}<br>B = %{x:.2f} (ln n)^(1/3)<br>exponent %{z:.2f}",
    height=480,
    look={"colorscale": SCALE, "colorbar": {"title": "log<sub>n</sub> flops"}},
)
_SIDES = (
    ("constant_rank", "the chain's rank exceeds n<sup>2</sup>", PURPLE),
    ("constant_exact", "attention decides the chain, to the right", ORANGE),
    ("constant_rule", "decided by the lemma's rule", SKY),
)


@drawing
def lower_bound_phase(results: Results) -> Drawing:
    """Theorems 1.3, 1.4 and B.2 at order 3: the phase diagram with the curves of the lower bound."""
    grid = sorted((row for row in rows_of(results) if "polynomial_exponent" in row), key=lambda row: int(row["log2_n"]))
    n = [row["log2_n"] for row in grid]
    ratios = list(grid[0]["ratios"])
    step = ratios[-1] - ratios[-2]
    # Where the polynomial method costs more, it does so at every larger B, and the exponent is that of exact attention.
    further = [ratios[-1] + step * more for more in range(1, math.ceil((2.9 - ratios[-1]) / step))]
    cells = [
        {"log2_n": row["log2_n"], "ratio": ratio, "exponent": min(exponent, row["exact_exponent"])}
        for row in grid
        for ratio, exponent in zip(
            [*ratios, *further], [*row["polynomial_exponent"], *[row["exact_exponent"]] * len(further)], strict=True
        )
    ]
    drawn = _PHASE.figure(cells)
    plane = sorted((row for row in rows_of(results) if "cube_root" in row), key=lambda row: int(row["log2_n"]))
    sides = [
        {"log2_n": row["log2_n"], **{name: row[name] / row["cube_root"] for name, _, _ in _SIDES}}
        for row in plane
        if n[0] <= row["log2_n"] <= n[-1]
    ]
    border = [row["border"] for row in grid]
    drawn.add_trace(curve("exact attention is cheaper to the right", border, n, "#ff4d4d", mode="lines"))
    at = [row["log2_n"] for row in sides]
    for name, label, colour in _SIDES:
        drawn.add_trace(curve(label, [row[name] for row in sides], at, colour, mode="lines", dash="dash"))
    text = (
        f"The phase diagram at order 3 with the lower bound's side, at a constant gap: at n = 2^{at[-1]} the chain's "
        f"rank passes n^2 at {sides[-1]['constant_rank']:.2f} (ln n)^(1/3), exact attention is cheaper from "
        f"{border[-1]:.2f}, and the chain's instances are decided from {sides[-1]['constant_exact']:.2f}."
    )
    borders = [{"log2_n": row["log2_n"], "exact_is_cheaper_from": row["border"]} for row in grid]
    names = ("log2_n", "exact_is_cheaper_from", *(name for name, _, _ in _SIDES))
    return Drawing(drawn, text, columns_of([*borders, *sides], *names))
