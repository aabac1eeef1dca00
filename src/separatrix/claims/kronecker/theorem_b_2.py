"""Theorem B.2 of Alman and Song: the lower bound, and the chain's instances in the plane of n and B.

There are two families of instances. `constant gap` has the parameters of Theorem 4.7: t = ln n, d = 2 t, eps = 1/2,
padded to 2 d as in Lemma B.1. `direct road` has the parameters of the reduction that runs: 3-SAT with 4.27 clauses per
variable, v = 3 log2 n, so d = 3 m, t = m, eps = 1/m, with m = 4.27 v, padded to 4 m. For each family we compute the B
at which the worst-case rank of the polynomial method exceeds n^2, so that it is no longer subcubic, and the least B at
which attention decides the instances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import separatrix as sx
from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.kronecker.theorem_1_3 import theorem_1_3
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim
from separatrix.errors import SeparatrixError
from separatrix.hardness import exponents
from separatrix.hardness.attention_decision import attention_sizes
from separatrix.hardness.cnf import random_formula
from separatrix.hardness.maxip import to_maxip
from separatrix.hardness.orthogonal_vectors import to_orthogonal_vectors
from separatrix.hardness.padded_attention import pad_for_attention
from separatrix.hardness.sat import decide_formula
from separatrix.hardness.smallest_beta import beta_of_the_rule, beta_on_exact_outputs
from separatrix.lab.registry import experiment

_TOLERANCE = 0.1
"""An error that still allows a decision: with one blank, outputs are above 0.47 or below 0.06."""
_HIGHEST = 6.0
"""The largest B at which the rank border is searched."""


def rank_border(log2_n: int, width: int, share: float, log_tolerance: float) -> float:
    """The B at which C(width + g, g) exceeds n^2, where g is the least degree for scores up to share B^3.

    >>> round(rank_border(20, 28, 0.5, -20 * math.log(2)), 2)
    2.07
    """

    def below(bound: float) -> bool:
        degree = exponents.least_degree(share * bound**3, log_tolerance)
        return math.log2(math.comb(width + degree, degree)) <= 2 * log2_n

    return exponents.border(below, 1e-3, _HIGHEST)


@experiment(version=1, name="kronecker.lower_bound")
def plane(log2_n: int, seed: int) -> dict[str, float]:
    """Return both values of B for both families at n = 2^log2_n. The computation is deterministic."""
    log_n = log2_n * math.log(2)
    t = 2 * math.ceil(log_n / 2)
    d = 2 * t
    m = math.ceil(4.27 * 3 * log2_n)
    pairs = 4**log2_n
    return {
        "cube_root": math.cbrt(log_n),
        "constant_rank": rank_border(log2_n, 2 * d, 0.5, -log_n),
        "constant_exact": math.cbrt(beta_on_exact_outputs(pairs, t // 2, t, 2 * d)),
        "constant_rule": math.cbrt(beta_of_the_rule(pairs, t // 2, t, d, 2 * d)),
        "direct_rank": rank_border(log2_n, 4 * m, 0.25, math.log(_TOLERANCE)),
        "direct_exact": math.cbrt(beta_on_exact_outputs(pairs, m - 1, m, 4 * m)),
    }


@experiment(version=2, name="kronecker.chain_rank")
def measured(variables: int, seed: int) -> dict[str, float]:
    """Return, for one formula, the B at which the rank of the library's plan exceeds n^2, and the B that decides it."""
    formula = random_formula(variables, math.ceil(4.27 * variables), 3, seed)
    instance = to_maxip(to_orthogonal_vectors(formula))
    n = len(instance.a)
    sizes = attention_sizes(n, (len(instance.b), len(instance.c)), instance.dimension, instance.low, instance.high)

    def rank(bound: float) -> float:
        padded = pad_for_attention(instance, bound**3, pad=instance.high, blanks=(1, 1))
        try:
            plan = sx.plan_attention(
                padded.query, padded.keys, padded.values, tolerance=_TOLERANCE, method="polynomial"
            )
        except SeparatrixError:
            return math.inf  # No rank up to the largest tested rank is sufficient.
        return math.inf if plan.rank is None else plan.rank

    border = exponents.border(lambda bound: rank(bound) <= n * n, 0.25, 3.0, steps=7)
    return {
        "n": n,
        "below": float(rank(border)),
        "border": border,
        "deciding": sizes.bound,
        "rank_reaches": int(rank(sizes.bound) <= n * n),
        "satisfiable": int(bool(decide_formula(formula))),
    }


@claim(
    where="Theorem B.2",
    says=r"Assuming the Strong Exponential Time Hypothesis, tensor attention with $d$ of order $\log n$, entries up "
    r"to a constant times $(\log n)^{1/3}$ and an error that is a power of $1/n$ cannot be computed in time $n^{3 - "
    "q}$, for any $q > 0$.",
    cells=joined(
        cell_grid(plane, {"log2_n": (3, 4, 5, 6, 8, 10, 14, 20, 26, 32, 40)}),
        cell_grid(measured, {"variables": (6, 9, 12)}),
        # The phase diagram at order 3, in which the curves of the lower bound are drawn.
        lambda: (cell for cell in theorem_1_3.cells() if cell.arguments["order"] == 3),
    ),
    figures=("lower_bound_plane", "lower_bound_phase"),
    neighbours=(
        Neighbour("the rank exceeds $n^2$ already below 0.3 times the $B$ that decides Gap-MaxIP", {"below": 0.3}),
    ),
)
def theorem_b_2(cells: Sequence[CellResult], below: float = 1.0) -> Finding:
    """Return *illustrated* if, at every n, the rank exceeds n^2 below the B that decides the chain's instances."""
    rows = [cell.result for cell in cells if "cube_root" in cell.result]
    chain = [cell.result for cell in cells if "deciding" in cell.result]
    early = sum(
        row["constant_rank"] >= below * row["constant_exact"] or row["direct_rank"] >= below * row["direct_exact"]
        for row in rows
    )
    reached = sum(formula["rank_reaches"] for formula in chain)
    last = rows[-1]
    numbers: dict[str, float | str] = {
        "lengths at which rank n^2 reaches a B that decides": early,
        "formulas that a rank up to n^2 would decide": f"{reached} of {len(chain)}",
        "constant gap, n = 2^40: rank exceeds n^2 from B / (ln n)^(1/3)": last["constant_rank"] / last["cube_root"],
        "constant gap, n = 2^40: exact outputs decide from B / (ln n)^(1/3)": last["constant_exact"]
        / last["cube_root"],
        "direct reduction, n = 2^40: rank exceeds n^2 from B": last["direct_rank"],
        "direct reduction, n = 2^40: exact outputs decide from B": last["direct_exact"],
        "formulas: rank exceeds n^2 from B": ", ".join(
            f"{formula['border']:.2f} (n = {formula['n']:g})" for formula in chain
        ),
        "formulas: decided from B": ", ".join(f"{formula['deciding']:.2f}" for formula in chain),
    }
    if early or reached:
        return Finding(Verdict.UNDECIDED, numbers, "The polynomial method would decide the chain's instances.")
    note = (
        "A conditional lower bound cannot be decided by running programs. We ran the chain from 3-SAT to attention, "
        "and the polynomial method on it, whose rank exceeds n^2 at a smaller B than the one that decides the "
        "formula. At a constant gap both values of B are constants times (ln n)^(1/3); in the direct reduction, "
        "whose gap is 1/m, a B of order (ln n)^(2/3) decides."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
