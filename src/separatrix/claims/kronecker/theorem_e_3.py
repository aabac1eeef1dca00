"""Theorem E.3 of Alman and Song, with the paper's count: n r g with r = C(3 (g + d), 3 g) is n^(1 + o(1)).

With d = ln n, eps = 1/n and B^3 = rho ln n the degree of Corollary D.2 is gamma ln n, gamma = 3 max{1 / ln(e + 1 /
rho), rho}, and log_n of n r g tends to

    1 + 3 ((1 + gamma) ln(1 + gamma) - gamma ln gamma)

as n grows. B = o((ln n)^(1/3)) means rho -> 0, and the limit tends to 1, slowly, as rho -> 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.corollary_d_2 import ENOUGH, formula
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim, holds_if
from separatrix.hardness.exponents import entropy
from separatrix.lab.registry import experiment

RHOS = (1.0, 0.1, 1e-3, 1e-10, 1e-50, 1e-150, 1e-250)
"""B^3 / ln n."""


def log_rank(degree: float, d: float) -> float:
    """The logarithm of C(3 (g + d), 3 g): exact if g + d is below a million, otherwise by Stirling's leading terms.

    >>> abs(log_rank(4, 8) - math.log(math.comb(36, 12))) < 1e-9
    True
    """
    if degree + d < 1e6:
        g, w = 3 * degree, 3 * d
        return math.lgamma(g + w + 1) - math.lgamma(g + 1) - math.lgamma(w + 1)
    return 3 * d * entropy(degree / d)


@experiment(version=1, name="kronecker.theorem_e3")
def exponent(log10_log_n: float, rho: float, seed: int) -> dict[str, float]:
    """Return log_n of n r g at ln n = 10^log10_log_n and B^3 = rho ln n, then for d = (ln n)^1.5, and the limit."""
    log_n = 10.0**log10_log_n
    degree = ENOUGH * formula(log_n, rho * log_n)
    gamma = degree / log_n
    return {
        "exponent": 1 + (log_rank(degree, log_n) + math.log(degree)) / log_n,
        "wider": 1 + (log_rank(degree, log_n**1.5) + math.log(degree)) / log_n,
        "limit": 1 + 3 * entropy(gamma),
    }


@claim(
    where="Theorem E.3",
    says=r"Algorithm 1 solves the approximate problem with $d = O(\log n)$, $B = o((\log n)^{1/3})$ and an error "
    "that is a power of $1/n$ in time $n^{1 + o(1)}$.",
    cells=cell_grid(exponent, {"rho": RHOS, "log10_log_n": (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)}),
    neighbours=(
        Neighbour(r"with $B$ of order $(\log n)^{1/3}$", {"rho": 1.0}),
        Neighbour(r"with $d = (\log n)^{1.5}$", {"width": "wider"}),
        Neighbour(
            r"with an exponent below 1.2 as soon as $B^3$ is a thousandth of $\ln n$", {"rho": 1e-3, "within": 0.2}
        ),
    ),
)
def theorem_e_3(
    cells: Sequence[CellResult], rho: float = RHOS[-1], width: str = "exponent", within: float = 0.2
) -> Finding:
    """Check that the exponent decreases with rho to below 1.2, and that it is within 0.001 of its limit."""
    longest = max(cell.parameters["log10_log_n"] for cell in cells)
    ends = [cell for cell in cells if cell.parameters["log10_log_n"] == longest]
    falling = [cell.result[width] for cell in sorted(ends, key=lambda cell: -cell.parameters["rho"])]
    (least,) = [cell.result[width] for cell in ends if cell.parameters["rho"] == rho]
    apart = max(abs(cell.result[width] - cell.result["limit"]) for cell in ends)
    numbers: dict[str, float | str] = {
        f"exponent at ln n = 10^{longest:g}, B^3 / ln n = 1 to {RHOS[-1]:g}": ", ".join(f"{x:.2f}" for x in falling),
        "largest distance from the limit there": apart,
        "exponent at ln n = 10, B^3 / ln n = 0.1": next(
            cell.result["exponent"]
            for cell in cells
            if (cell.parameters["log10_log_n"], cell.parameters["rho"]) == (1, 0.1)
        ),
    }
    passed = falling == sorted(falling, reverse=True) and least <= 1 + within and apart <= 1e-3
    if not passed:
        return holds_if(False, numbers)
    note = "The exponent tends to 1 as 1 / log(log n / B^3): at any n that occurs in practice it is far above 1."
    return Finding(Verdict.HOLDS_ASYMPTOTICALLY, numbers, note)
