"""Alman and Song's lower bound: the protocol, the chain of reductions, Lemma B.1, and the plane of n and B."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, RED, SCALE, SKY, Drawing, Value, figure


@drawing
def protocol_soundness(found: Sequence[Found]) -> Drawing:
    """Theorem 4.5: with what probability Merlin's best lie is accepted, against the length of the code."""
    rows = sorted(
        ({**row, **{name: float(Fraction(row[name])) for name in ("worst", "bound")}} for row in rows_of(found)),
        key=lambda row: (row["r"], row["length"]),
    )
    drawn = figure("length N of the code", "accepted with probability", height=460)
    for r, colour in zip(sorted({row["r"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["r"] == r]
        length = [row["length"] for row in line]
        points = {"color": colour, "size": 10}
        worst = [row["worst"] for row in line]
        drawn.add_trace(go.Scatter(name=f"r = {r}, best lie", x=length, y=worst, mode="markers", marker=points))
        reach = [at / 4 for at in range(4 * length[0], 4 * length[-1] + 1)]
        bound = [min(1.0, 3 * (r - 1) / at) for at in reach]
        drawn.add_trace(curve(f"r = {r}, bound 3 (r - 1) / N", reach, bound, colour, mode="lines"))
        typical = [row["typical"] for row in line]
        drawn.add_trace(curve(f"r = {r}, mean over sets", length, typical, colour, mode="lines", dash="dot"))
    drawn.add_hline(y=0.5, line={"color": GREY, "width": 1}, annotation_text="1/2", annotation_position="top right")
    drawn.update_yaxes(range=[0, 1.05])
    half = ", ".join(f"{6 * (r - 1)} at r = {r}" for r in sorted({row["r"] for row in rows}))
    text = (
        "The probability that Merlin's best lie is accepted, by interpolation, lies on the bound 3 (r - 1) / N "
        f"wherever that is below 1; it falls to 1/2 at N = {half}."
    )
    names = ("m", "parts", "r", "length", "field", "worst", "typical", "bound", "merlin_bits", "coins", "bob_bits")
    return Drawing(drawn, text, columns_of(rows, *names))


@drawing
def chain_sizes(found: Sequence[Found]) -> Drawing:
    """Section 4: the numbers in each problem of the chain against the variables of the formula."""
    (row,) = rows_of(found)
    v = row["variables"]
    drawn = figure("variables v (4.27 v clauses)", "log<sub>2</sub> of the size", height=500)
    for name, label, colour, dash in (
        ("cnf", "CNF, literals", GREY, "solid"),
        ("orthogonal_vectors", "3OV, numbers", BLUE, "solid"),
        ("direct_maxip", "directly: Gap-MaxIP, numbers", GREEN, "solid"),
        ("direct_work", "directly: multiplications", GREEN, "dash"),
        ("protocol_maxip", "by protocol: Gap-MaxIP, numbers", ORANGE, "solid"),
        ("protocol_work", "by protocol: multiplications", ORANGE, "dash"),
    ):
        drawn.add_trace(curve(label, v, row[name], colour, dash=dash))
    drawn.add_trace(curve("2<sup>v</sup> assignments", v, v, RED, mode="lines", dash="dot"))
    text = (
        f"Sizes along the chain against v: vectors grow as 2^(v/3), attention over triples as 2^v; at v = {v[-1]} the "
        f"direct road takes 2^{row['direct_work'][-1]:.0f} multiplications, the protocol's "
        f"2^{row['protocol_work'][-1]:.0f}."
    )
    return Drawing(drawn, text, dict(row))


@drawing
def lemma_b1_outputs(found: Sequence[Found]) -> Drawing:
    """Lemma B.1 at eps = 1/2: the outputs nearest to the gap against beta, with both thresholds."""
    one = next(one for one in found if one.parameters["low"] * 2 == one.parameters["high"])
    row, shape = one.result, one.parameters
    drawn = figure("beta", "log<sub>10</sub> of the output u", height=460)
    tens = {
        name: [value / math.log(10) for value in row[name]] for name in ("case_1", "case_2", "corrected", "printed")
    }
    two = math.log10(2)
    for name, label, colour, dash, shift in (
        ("case_1", "case 1, least", BLUE, "solid", 0.0),
        ("case_2", "case 2, largest", RED, "solid", 0.0),
        ("corrected", "threshold, corrected", GREEN, "dash", two),
        ("printed", "threshold, printed", GREY, "dash", two),
    ):
        y = [value + shift for value in tens[name]]
        drawn.add_trace(curve(label, row["beta"], y, colour, mode="lines", dash=dash))
    rule = row["beta"][0] / shape["factors"][0]
    drawn.add_vline(x=rule, line={"color": GREY, "width": 1, "dash": "dot"})
    text = (
        f"At n = {shape['n']}, d = {shape['d']}, t = {shape['high']}, eps = 1/2: the least output of case 1 overtakes "
        f"the largest of case 2; the corrected threshold parts them from beta = {rule:.0f} on, the printed one nowhere."
    )
    columns: dict[str, list[Value]] = {"beta": list(row["beta"])}
    columns |= {f"log10 {name}": list(values) for name, values in tens.items()}
    return Drawing(drawn, text, columns)


@drawing
def smallest_beta(found: Sequence[Found]) -> Drawing:
    """Lemma B.1: the smallest beta, by the rule and on exact outputs, beside the proof's, against n."""
    rows = sorted(rows_of(found), key=lambda row: int(row["n"]))
    line = [row for row in rows if (row["d"], row["low"], row["high"]) == (20, 5, 10)]
    drawn = figure("n", "beta", log_x=True, log_y=True, height=440)
    n = [row["n"] for row in line]
    for name, label, colour in (
        ("square", "proof, square root as printed", GREY),
        ("cube", "proof, cube root", ORANGE),
        ("rule", "least by the rule with its error", GREEN),
        ("exact", "least on exact outputs", BLUE),
    ):
        drawn.add_trace(curve(label, n, [row[name] for row in line], colour))
    drawn.update_xaxes(tickvals=n, ticktext=[str(value) for value in n])
    last = line[-1]
    text = (
        f"Beta against n at d = 20, t = 10, eps = 1/2, all growing as ln n: at n = {last['n']} the proof takes "
        f"{last['cube']:.0f}, the rule needs {last['rule']:.0f}, exact outputs {last['exact']:.0f}."
    )
    return Drawing(drawn, text, columns_of(rows, "n", "d", "low", "high", "square", "cube", "rule", "exact"))


@drawing
def lower_bound_plane(found: Sequence[Found]) -> Drawing:
    """Theorem B.2: where the polynomial method stops to be subcubic, and where the chain's instances are decided."""
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
    # Where the polynomial method is dearer already, it is so at every larger B, and the exponent is exact attention's.
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
