"""Hypothesis 4.1, Conjecture 4.3 and Theorem 4.7 of Alman and Song: the sizes of the chain from SAT to attention."""

from __future__ import annotations

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves
from separatrix.report.tables import Results, one_row_per_entry, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, RED

_SERIES = (
    Curve("cnf", "CNF, literals", GREY),
    Curve("orthogonal_vectors", "3OV, numbers", BLUE),
    Curve("direct_maxip", "directly: Gap-MaxIP, numbers", GREEN),
    Curve("direct_work", "directly: multiplications", GREEN, dash="dash"),
    Curve("protocol_maxip", "by protocol: Gap-MaxIP, numbers", ORANGE),
    Curve("protocol_work", "by protocol: multiplications", ORANGE, dash="dash"),
)


@Curves(
    series=_SERIES,
    x=Axis("variables v (4.27 v clauses)", "variables"),
    y=Axis("log<sub>2</sub> of the size"),
    bound=Bound("2<sup>v</sup> assignments", lambda v: v, RED, dash="dot"),
    height=500,
)
def chain_sizes(results: Results) -> Chart:
    """Section 4: the sizes of the problems in the reduction from SAT to attention, against the number of variables."""
    (cell,) = rows_of(results)
    rows = one_row_per_entry([cell], *cell)
    last = rows[-1]
    return rows, (
        f"Sizes along the chain against v: vectors grow as 2^(v/3), attention over triples as 2^v; at v = "
        f"{last['variables']} the direct reduction takes 2^{last['direct_work']:.0f} multiplications, the protocol's "
        f"2^{last['protocol_work']:.0f}."
    )
