"""Theorem B.2 of Alman and Song: the lower bound in the plane of n and B."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, rows_of
from separatrix.report.theme import BLUE, GREY, ORANGE, PURPLE, RED, SCALE, SKY, Drawing, Value, figure


@drawing
def lower_bound_plane(found: Sequence[Found]) -> Drawing:
    """Theorem B.2: the B at which the polynomial method is no longer subcubic, and the B that decides the instances."""
    rows = sorted((row for row in rows_of(found) if "cube_root" in row), key=lambda row: int(row["log2_n"]))
    chain = sorted((row for row in rows_of(found) if "deciding" in row), key=lambda row: int(row["variables"]))
    drawn = figure("log<sub>2</sub> n", "entry bound B", log_y=True, height=520)
    x = [row["log2_n"] for row in rows]
    for name, label, colour, dash in (
        ("cube_root", "(ln n)<sup>1/3</sup>", GREY, "solid"),
        ("constant_rank", "constant gap: rank passes n<sup>2</sup>", BLUE, "solid"),
        ("constant_exact", "constant gap: decided from", BLUE, "dash"),
        ("direct_rank", "direct road: rank passes n<sup>2</sup>", ORANGE, "solid"),
        ("direct_exact", "direct road: decided from", ORANGE, "dash"),
    ):
        drawn.add_trace(curve(label, x, [row[name] for row in rows], colour, mode="lines", dash=dash))
    at = [row["variables"] / 3 for row in chain]
    for name, label, colour, symbol in (
        ("border", "a formula: rank passes n<sup>2</sup>", RED, "circle"),
        ("deciding", "a formula: decided at", PURPLE, "diamond"),
    ):
        points = {"color": colour, "size": 10, "symbol": symbol}
        y = [row[name] for row in chain]
        drawn.add_trace(go.Scatter(name=label, x=at, y=y, mode="markers", marker=points))
    drawn.update_yaxes(tickvals=[0.5, 1, 2, 5, 10, 20, 50], ticktext=["0.5", "1", "2", "5", "10", "20", "50"])
    last = rows[-1]
    text = (
        "B against n: on the chain's instances the polynomial method's rank passes n^2 below the B that decides them; "
        f"at n = 2^{last['log2_n']} and a constant gap at {last['constant_rank']:.2f} against "
        f"{last['constant_exact']:.2f}, with (ln n)^(1/3) = {last['cube_root']:.2f} between."
    )
    names = ("cube_root", "constant_rank", "constant_exact", "constant_rule", "direct_rank", "direct_exact")
    columns: dict[str, list[Value]] = {"log2_n": [*x, *at]}
    columns |= {name: [*(row[name] for row in rows), *(None for _ in chain)] for name in names}
    columns |= {name: [*(None for _ in rows), *(row[name] for row in chain)] for name in ("border", "deciding")}
    return Drawing(drawn, text, columns)


@drawing
def lower_bound_phase(found: Sequence[Found]) -> Drawing:
    """Theorems 1.3, 1.4 and B.2 at order 3: the phase diagram, with the lower bound's side drawn in."""
    grid = sorted((row for row in rows_of(found) if "polynomial_exponent" in row), key=lambda row: int(row["log2_n"]))
    plane = sorted((row for row in rows_of(found) if "cube_root" in row), key=lambda row: int(row["log2_n"]))
    n = [row["log2_n"] for row in grid]
    ratios = list(grid[0]["ratios"])
    step = ratios[-1] - ratios[-2]
    # Where the polynomial method costs more, it does so at every larger B, and the exponent is exact attention's.
    further = [ratios[-1] + step * more for more in range(1, math.ceil((2.9 - ratios[-1]) / step))]
    z = [
        [min(value, row["exact_exponent"]) for value in row["polynomial_exponent"]]
        + [row["exact_exponent"]] * len(further)
        for row in grid
    ]
    drawn = figure("B / (ln n)<sup>1/3</sup>", "log<sub>2</sub> n", height=480)
    drawn.add_trace(
        go.Heatmap(
            x=[*ratios, *further],
            y=n,
            z=z,
            colorscale=SCALE,
            colorbar={"title": "log<sub>n</sub> flops"},
            hovertemplate="n = 2^%{y}<br>B = %{x:.2f} (ln n)^(1/3)<br>exponent %{z:.2f}<extra></extra>",
        )
    )
    at = [row["log2_n"] for row in plane if n[0] <= row["log2_n"] <= n[-1]]
    curves = {
        name: [row[name] / row["cube_root"] for row in plane if row["log2_n"] in at]
        for name in ("constant_rank", "constant_exact", "constant_rule")
    }
    border = [row["border"] for row in grid]
    drawn.add_trace(curve("exact attention is cheaper to the right", border, n, "#ff4d4d", mode="lines"))
    for name, label, colour in (
        ("constant_rank", "the chain's rank passes n<sup>2</sup>", PURPLE),
        ("constant_exact", "the chain is decided to the right", ORANGE),
        ("constant_rule", "decided by the lemma's rule", SKY),
    ):
        drawn.add_trace(curve(label, curves[name], at, colour, mode="lines", dash="dash"))
    drawn.update_xaxes(range=[0.02, 2.9])
    text = (
        "The phase diagram at order 3 with the lower bound's side, at a constant gap: at "
        f"n = 2^{at[-1]} the chain's rank passes n^2 at {curves['constant_rank'][-1]:.2f} (ln n)^(1/3), exact "
        f"attention is cheaper from {border[-1]:.2f}, and the chain's instances are decided from "
        f"{curves['constant_exact'][-1]:.2f}."
    )
    columns: dict[str, list[Value]] = {"log2_n": [*n, *at], "exact_is_cheaper_from": [*border, *(None for _ in at)]}
    columns |= {name: [*(None for _ in n), *values] for name, values in curves.items()}
    return Drawing(drawn, text, columns)
