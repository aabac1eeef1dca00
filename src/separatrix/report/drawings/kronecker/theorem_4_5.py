"""Theorem 4.5 of Alman and Song: how often Merlin's best false proof is accepted."""

from __future__ import annotations

from fractions import Fraction

from separatrix.report.charts import Axis, Chart, Curve, Curves, Level
from separatrix.report.tables import Results, groups_of, rows_of


@Curves(
    series=(
        Curve("worst", "r = {r}, best false proof", mode="markers", size=10),
        Curve("curve", "r = {r}, bound 3 (r - 1) / N", mode="lines"),
        Curve("typical", "r = {r}, mean over sets", mode="lines", dash="dot"),
    ),
    by=("r",),
    x=Axis("length N of the code", "length"),
    y=Axis("accepted with probability", range=(0, 1.05)),
    levels=(Level(0.5, "1/2"),),
    height=460,
    columns=("m", "parts", "r", "length", "field", "worst", "typical", "bound", "merlin_bits", "coins", "bob_bits"),
)
def protocol_soundness(results: Results) -> Chart:
    """Theorem 4.5: the probability that Merlin's best false proof is accepted, against the length of the code."""
    rows = sorted(
        ({**row, **{name: float(Fraction(row[name])) for name in ("worst", "bound")}} for row in rows_of(results)),
        key=lambda row: (row["r"], row["length"]),
    )
    bounds = [
        {"r": r, "length": at / 4, "curve": min(1.0, 3 * (r - 1) / (at / 4))}
        for (r,), group in groups_of(rows, "r").items()
        for at in range(4 * group[0]["length"], 4 * group[-1]["length"] + 1)
    ]
    half = ", ".join(f"{6 * (r - 1)} at r = {r}" for r in sorted({row["r"] for row in rows}))
    text = (
        "The probability that Merlin's best false proof is accepted equals the bound 3 (r - 1) / N wherever that "
        f"is below 1; it falls to 1/2 at N = {half}."
    )
    return [*rows, *bounds], text, rows
