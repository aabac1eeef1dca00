"""Lemma 3.1: Hoeffding's inequality, compared with exact probabilities.

Sums of independent signs have binomial tails, which are computed exactly. Other sums are enumerated: each X_i has two
values a_i and b_i, the second with probability p_i, and probabilities are fractions. Among bounded variables, those
with values at the ends of their interval are the worst case of the inequality.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.separation.binomial import tails, total
from separatrix.separation.extended import log10

_LOG10_E = math.log10(math.e)


@experiment(version=1, name="separation.hoeffding_signs")
def signs(n: int, seed: int) -> dict[str, list[float]]:
    """Return t^2 / sum (b_i - a_i)^2 and log10 P[|X| >= t] for sums of n fair signs and thresholds t."""
    exact, all_vectors = tails(n), total(n)
    columns: dict[str, list[float]] = {"quotient": [], "log10": []}
    for x in (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0):
        k = min(math.ceil((n + x * math.sqrt(n)) / 2), n)
        t = 2 * k - n
        if t > 0:
            columns["quotient"].append(t**2 / (4 * n))
            chance = 2 * exact[k]
            # The counts of sign vectors are arbitrarily large integers, and their shares are extended floats.
            columns["log10"].append(math.log10(chance) - math.log10(all_vectors) if all_vectors > 1 else log10(chance))
    return columns


@experiment(version=1, name="separation.hoeffding_two_points")
def two_points(n: int, equal: bool, seed: int) -> dict[str, list[float]]:
    """Return t^2 / sum (b_i - a_i)^2 and log10 P[|X| >= t] at every jump, for sums of n two-valued variables.

    The ends and the probabilities are random; with `equal` all intervals are [0, 1] and all probabilities are equal.
    """
    draw = random.Random(seed)
    ends = [(Fraction(0), Fraction(1)) if equal else _interval(draw) for _ in range(n)]
    p = Fraction(draw.randrange(1, 64), 64)
    chances = [p if equal else Fraction(draw.randrange(1, 64), 64) for _ in range(n)]
    mean = sum((a + q * (b - a) for (a, b), q in zip(ends, chances, strict=True)), Fraction(0))
    law: dict[Fraction, Fraction] = {}
    for choice in itertools.product((0, 1), repeat=n):
        value = sum((ends[i][k] for i, k in enumerate(choice)), Fraction(0))
        weight = math.prod(chances[i] if k else 1 - chances[i] for i, k in enumerate(choice))
        law[abs(value - mean)] = law.get(abs(value - mean), Fraction(0)) + weight
    squares = sum((b - a) ** 2 for a, b in ends)
    columns: dict[str, list[float]] = {"quotient": [], "log10": []}
    beyond = Fraction(0)
    for t in sorted(law, reverse=True):
        beyond += law[t]
        if t > 0:
            columns["quotient"].append(float(t**2 / squares))
            columns["log10"].append(math.log10(beyond))
    return columns


def _interval(draw: random.Random) -> tuple[Fraction, Fraction]:
    low = Fraction(draw.randrange(-32, 32), 8)
    return low, low + Fraction(draw.randrange(1, 64), 8)


@claim(
    where="Lemma 3.1",
    says=r"Hoeffding's inequality says that $\Pr[\lvert X - E X \rvert \ge t] \le 2 \exp(-2 t^2 / \sum_i (b_i - "
    "a_i)^2)$ for a sum $X$ of independent variables within $[a_i, b_i]$.",
    cells=joined(
        cell_grid(signs, {"n": (1, 2, 3, 10, 100, 2000, 10**6)}),
        cell_grid(two_points, {"n": (1, 2, 5, 8), "seed": range(3), "equal": (True, False)}),
    ),
    neighbours=(
        Neighbour("without the factor 2", {"front": 1.0}),
        Neighbour(r"with $\exp(-2.1 t^2 / \ldots)$", {"inside": 2.1}),
        Neighbour(r"with $\exp(-2 t^2 / \sum_i (b_i - a_i))$, at sums of signs", {"inside": 4.0}),
    ),
)
def lemma_3_1(cells: Sequence[CellResult], front: float = 2.0, inside: float = 2.0) -> Finding:
    """Check that every exact probability is at most front exp(-inside t^2 / sum of squares)."""
    rows = [pair for cell in cells for pair in zip(cell.result["quotient"], cell.result["log10"], strict=True)]
    beyond = [chance - (math.log10(front) - inside * quotient * _LOG10_E) for quotient, chance in rows]
    numbers: dict[str, float | str] = {
        "probabilities": len(rows),
        "above the bound": sum(x > 1e-12 for x in beyond),
        "largest probability / bound": 10 ** max(beyond),
    }
    return holds_if(max(beyond) <= 1e-12, numbers)
