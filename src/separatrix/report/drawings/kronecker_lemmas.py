"""Alman and Song's lemmas: products, scores, errors, rank, definition."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import Row, bound_line, columns_of, curve, drawing, rows_of, ticks
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, RED, Drawing, Value, figure


@drawing
def kronecker_product_flops(found: Sequence[Found]) -> Drawing:
    """Lemma C.3: flops of A^T B computed directly and by its factors."""
    widest = max((row["d1"], row["d2"]) for row in rows_of(found))
    rows = {row["n"]: row for row in rows_of(found) if (row["d1"], row["d2"]) == widest}
    chosen = [rows[n] for n in sorted(rows)]
    drawn = figure("rows n of each factor", "flops counted", log_x=True, log_y=True)
    n = [row["n"] for row in chosen]
    drawn.add_trace(curve("A<sup>T</sup>B as defined", n, [row["direct_flops"] for row in chosen], RED))
    drawn.add_trace(curve("by its factors", n, [row["factored_flops"] for row in chosen], BLUE))
    ticks(drawn, n)
    last = chosen[-1]
    text = (
        f"Flops against n on logarithmic axes: the defined product grows as n squared, the factored one as n; at n = "
        f"{last['n']} they are {last['direct_flops']:,} and {last['factored_flops']:,}."
    )
    return Drawing(drawn, text, columns_of(chosen, "n", "d1", "d2", "direct_flops", "factored_flops"))


@drawing
def score_bound(found: Sequence[Found]) -> Drawing:
    """Lemma D.3: the largest score against B, below B^3."""
    drawn = figure("entry bound B", "largest score / B<sup>3</sup>", log_x=True)
    bounds = {one.parameters["bound"] for one in found}
    ticks(drawn, bounds)
    bound_line(drawn, bounds)
    d = max(one.parameters["d"] for one in found)
    rows = sorted((row for row in map(_score, found) if row["d"] == d), key=lambda row: (row["entries"], row["bound"]))
    for kind, colour in zip(sorted({row["entries"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["entries"] == kind]
        drawn.add_trace(curve(kind, [row["bound"] for row in line], [row["ratio"] for row in line], colour))
    drawn.update_yaxes(range=[0, 1.15])
    text = (
        f"The largest score over B cubed against B at d = {d}, for uniform, extreme and aligned entries: never above "
        "1, which the last reach."
    )
    return Drawing(drawn, text, columns_of(rows, "entries", "d", "bound", "largest", "ratio"))


def _score(one: Found) -> Row:
    # The kind of entries is a parameter, and the result counts entries.
    return {**one.result, **one.parameters}


@drawing
def denominator_error(found: Sequence[Found]) -> Drawing:
    """Lemma D.5: error of the row sums over its bound."""
    rows = sorted(rows_of(found), key=lambda row: (row["errors"], row["n"], row["thousandths"]))
    drawn = figure("ε<sub>A</sub>", "error of D / bound", log_x=True)
    epsilons = {row["thousandths"] / 1000 for row in rows}
    ticks(drawn, epsilons)
    bound_line(drawn, epsilons)
    for (kind, n), colour in zip(sorted({(row["errors"], row["n"]) for row in rows}), COLOURS, strict=True):
        line = [row for row in rows if (row["errors"], row["n"]) == (kind, n)]
        x, y = [row["thousandths"] / 1000 for row in line], [row["ratio"] for row in line]
        dash = "solid" if kind == "random" else "dot"
        drawn.add_trace(curve(f"{kind} errors, n = {n}", x, y, colour, dash=dash))
    drawn.update_yaxes(range=[0, 1.15])
    largest = max(row["ratio"] for row in rows)
    text = (
        f"Errors of the row sums over the bound of the lemma, for every epsilon: at most {largest:.3g}, which errors "
        "of one sign reach."
    )
    return Drawing(drawn, text, columns_of(rows, "errors", "n", "thousandths", "ratio"))


@drawing
def output_error(found: Sequence[Found]) -> Drawing:
    """Lemma D.6: error of the output over its bound, with and without D and D~ being row sums."""
    kinds = list(dict.fromkeys(row["normaliser"] for row in rows_of(found)))
    drawn = figure("ε<sub>A</sub> = ε<sub>D</sub>", "error of the output / bound", log_x=True, log_y=True)
    epsilons = {one.result["epsilon"] for one in found}
    ticks(drawn, epsilons)
    bound_line(drawn, epsilons)
    columns: dict[str, list[Value]] = {"normaliser": [], "epsilon": [], "ratio": []}
    for kind, colour in zip(kinds, (BLUE, GREEN, ORANGE, RED), strict=True):
        rows = [row for row in rows_of(found) if row["normaliser"] == kind]
        x = sorted({row["epsilon"] for row in rows})
        y = [max(row["ratio"] for row in rows if row["epsilon"] == epsilon) for epsilon in x]
        drawn.add_trace(curve(kind.replace("eps_D", "ε<sub>D</sub>"), x, y, colour))
        columns["normaliser"] += [kind] * len(x)
        columns["epsilon"] += x
        columns["ratio"] += y
    text = (
        "Errors of the output relative to the lemma's bound against epsilon: about half of it or less where D and D~ "
        "are row sums, above it where they are only within epsilon of each other, and far above where D is unrelated."
    )
    return Drawing(drawn, text, columns)


@drawing
def sharp_rank(found: Sequence[Found]) -> Drawing:
    """Lemma E.1: the columns that do, beside the printed count."""
    rows = [row | {"printed": float(row["printed"])} for row in map(dict, rows_of(found))]
    rows.sort(key=lambda row: (row["d"], row["degree"]))
    drawn = figure("degree g", "columns r", log_y=True)
    for d, colour in zip(sorted({row["d"] for row in rows}), COLOURS, strict=True):
        line = [row for row in rows if row["d"] == d]
        g = [row["degree"] for row in line]
        drawn.add_trace(curve(f"d = {d}, needed", g, [row["columns"] for row in line], colour))
        printed = [row["printed"] for row in line]
        drawn.add_trace(curve(f"d = {d}, printed", g, printed, colour, dash="dot", mode="lines"))
    last = rows[-1]
    text = (
        f"Columns against the degree for several d on a logarithmic axis: the printed count is far above what is "
        f"needed; at d = {last['d']}, g = {last['degree']} it is {last['printed']:.3g} against {last['columns']:,}."
    )
    return Drawing(drawn, text, columns_of(rows, "d", "degree", "columns", "needed", "printed"))


@drawing
def definition_errors(found: Sequence[Found]) -> Drawing:
    """Definition 1.5: the library's algorithms against the definition."""
    rows = sorted(rows_of(found), key=lambda row: (row["order"], row["n"]))
    drawn = figure("order k and length n", "largest difference", log_y=True)
    x = [f"k = {row['order']}, n = {row['n']}" for row in rows]
    for name, label, colour in (
        ("exact", "exact", BLUE),
        ("polynomial", "polynomial", GREEN),
        ("certificate", "its certificate", GREY),
        ("printed", "the brackets as printed", RED),
    ):
        y = [row[name] or None for row in rows]
        drawn.add_trace(go.Scatter(name=label, x=x, y=y, mode="markers", marker={"color": colour, "size": 10}))
    worst = max(row["exact"] for row in rows)
    text = (
        f"Differences from the definition by order: exact attention within {worst:.1g}, the polynomial method below "
        "its certificates, the formula with the printed brackets far off wherever d > 1."
    )
    return Drawing(drawn, text, columns_of(rows, "order", "n", "d", "exact", "polynomial", "certificate", "printed"))
