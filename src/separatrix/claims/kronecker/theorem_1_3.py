"""Theorem 1.3 of Alman and Song: no algorithm is truly subcubic above the threshold of Theorem 1.4.

That no other algorithm does better is a theorem under the Strong Exponential Time Hypothesis, which no program can
decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.kronecker.theorem_1_4 import RATIOS, grid, grid_of
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim


@claim(
    where="Theorem 1.3",
    says="Under the Strong Exponential Time Hypothesis no algorithm is truly subcubic once entries reach a "
    r"constant times $(\log n)^{1/3}$, with $d$ of order $\log n$ and a tolerance that is a power of $1/n$.",
    cells=grid,
    figures=("threshold_phase_diagram",),
    neighbours=(Neighbour(r"once entries reach $0.92 (\log n)^{1/3}$", {"ratio": 0.92}),),
    history=(
        r"Until 2026-11-17 the ratio of the entries to $(\log n)^{1/3}$ was 1.8, the largest of the grid, and 0.2 in "
        "the wrong neighbour. Since neighbours must be near and the border is between 0.92 and 0.98, the ratio is 1.",
    ),
)
def theorem_1_3(cells: Sequence[CellResult], ratio: float = 1.0) -> Finding:
    """Return *illustrated* if, at every n, exact attention costs less than the method of Theorem 1.4 at the ratio 1."""
    at = RATIOS.index(ratio)
    cubic = [cell for cell in grid_of(cells) if cell.parameters["order"] == 3]
    borders = [cell.result["border"] for cell in cubic]
    beaten = sum(cell.result["polynomial_exponent"][at] < cell.result["exact_exponent"] for cell in cubic)
    numbers: dict[str, float | str] = {
        "lengths": len(cubic),
        f"lengths at which the polynomial method beats exact attention at ratio {ratio:g}": beaten,
        "ratio from which exact attention is cheaper, least": min(borders),
        "ratio from which exact attention is cheaper, largest": max(borders),
    }
    if beaten:
        return Finding(Verdict.UNDECIDED, numbers, "The grid does not reach the threshold at every length.")
    note = (
        "A conditional lower bound cannot be decided by running programs. We computed the worst case of the "
        "polynomial method at order 3: from the ratios above on, it costs more than exact attention, for every n."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
