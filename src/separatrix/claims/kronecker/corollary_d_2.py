"""Corollary D.2 of Alman and Song: the degree of a polynomial that approximates exp on [-B, B].

Let L = log(1 / eps). A polynomial of degree g exists if the Chebyshev series of exp on [-B, B], truncated at degree g,
has an error below eps exp(-B). This gives an upper bound on the least degree. Two lower bounds hold for every
polynomial P of degree g with |P / exp - 1| <= eps on [-B, B]. The first: with n = g + 1, the alternating sum of P over
the n + 1 extrema of the n-th Chebyshev polynomial vanishes, the ends counted half, so that eps is at least

    |sum of +-exp| / (sum of exp) = 2 (I_n(B) + I_3n(B) + ...) / (I_0(B) + 2 I_2n(B) + ...),

I_j the modified Bessel functions. The second: P is at most (1 + eps) e^s on [-B, s], so at B it is at most T_g(y) (1 +
eps) e^s with y = (3 B - s) / (B + s), and it must be at least (1 - eps) e^B there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext

import numpy as np
from scipy.special import ive  # type: ignore[import-untyped]

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim, holds_if
from separatrix.hardness.exponents import least_degree
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

ENOUGH, LEAST = 3.0, 0.5
"""Multiples of the formula: a polynomial exists at `ENOUGH` times the degree, and none below `LEAST` times the degree.
"""
_DIGITS = 120
_TRIED = 20.0
"""The largest B at which the polynomial is evaluated, in decimal arithmetic."""


def formula(L: float, B: float) -> float:
    """max{L / log(e + L / B), B}: the degree of the corollary, with e added where its logarithm may vanish.

    >>> formula(20.0, 20.0) == 20.0, round(formula(200.0, 2.0), 2)
    (True, 43.18)
    """
    return max(L / math.log(math.e + L / B), B)


def printed(L: float, B: float) -> float:
    """max{L / log(L / B), B}, as printed; infinite where the logarithm is zero.

    >>> printed(20.0, 20.0), printed(10.0, 20.0)
    (inf, 20.0)
    """
    return math.inf if L == B else max(L / math.log(L / B), B)


def needed(L: float, B: float) -> int:
    """A degree below which no polynomial has the relative error exp(-L) on [-B, B].

    >>> needed(math.log(1e6), 1.5) <= least_degree(1.5, -math.log(1e6))
    True
    """

    def alternating(n: int) -> float:
        odd, even = ive(n * np.arange(1, 12, 2), B).sum(), ive(n * np.arange(2, 12, 2), B).sum()
        return float(2 * odd / (ive(0, B) + 2 * even))

    n, epsilon = 1, math.exp(-L)
    while alternating(n) > epsilon:
        n += 1
    s = np.linspace(-B, B, 401)[1:-1]
    s = s[B - s + math.log((1 - epsilon) / (1 + epsilon)) > 0]
    grown = B - s + math.log((1 - epsilon) / (1 + epsilon))
    # acosh(e^u) is log 2 + u up to e^-2u, and never more.
    growth = np.arccosh(np.exp(np.minimum(grown, 300.0))) + np.maximum(grown - 300.0, 0.0)
    return max(n - 1, math.ceil(float((growth / np.arccosh((3 * B - s) / (B + s))).max()) - 1))


def relative_error(B: float, degree: int) -> float:
    """The largest |P / exp - 1| over points of [-B, B], in decimals; P is the truncated Chebyshev series of exp.

    >>> relative_error(1.0, 8) < 1e-6 < relative_error(1.0, 5)
    True
    """
    with localcontext() as context:
        context.prec = _DIGITS
        half = Decimal(B) / 2
        coefficients = [2 * _bessel(k, half) for k in range(degree + 1)]
        coefficients[0] /= 2
        worst = Decimal(0)
        for at in range(61):
            t = Decimal(math.cos(math.pi * at / 60)) if 0 < at < 60 else Decimal(1 if at == 0 else -1)
            after, value = Decimal(0), Decimal(0)
            for c in reversed(coefficients[1:]):
                after, value = value, c + 2 * t * value - after
            P = coefficients[0] + t * value - after
            worst = max(worst, abs(P / (Decimal(B) * t).exp() - 1))
        return float(worst)


def _bessel(k: int, half: Decimal) -> Decimal:
    """The modified Bessel function I_k(2 half), by its power series."""
    term = half**k / math.factorial(k)
    total, m = Decimal(0), 0
    while abs(term) > abs(total) * Decimal(10) ** -_DIGITS:
        total += term
        m += 1
        term *= half * half / (m * (m + k))
    return total


@experiment(version=1, name="kronecker.corollary_d2")
def degrees(B: float, L: float, seed: int) -> dict[str, float | int | None]:
    """Return a sufficient degree, a lower bound on every degree, and the error at 3 times the formula's degree."""
    degree = math.floor(ENOUGH * formula(L, B))
    tried = B <= _TRIED and L <= 10 * _TRIED
    return {
        "enough": least_degree(B, -L),
        "needed": needed(L, B),
        "error": relative_error(B, degree) if tried else None,
        "log_error": -L,
    }


def degree_cells() -> Iterator[Cell]:
    """Cells with B near 1 and large, eps near 0.1 and tiny, and log(1 / eps) near B, where the formula switches."""
    for B in (1.01, 2.0, 5.0, 20.0, 80.0, 200.0):
        for L in (math.log(10.001), 0.1 * B, 0.999 * B, B, 1.001 * B, 1.5 * B, 3 * B, 10 * B, 40 * B, 200 * B):
            if math.log(10) < L <= 500:
                yield degrees.cell(seed=0, B=B, L=L)


@claim(
    where="Corollary D.2",
    says=r"For $B > 1$ and $\epsilon < 0.1$ some polynomial of a degree of order $\max\lbrace "
    r"\frac{\log(1/\epsilon)}{\log(\log(1/\epsilon) / B)}, B \rbrace$ approximates $\exp$ on $[-B, B]$ up to a "
    r"relative error of $\epsilon$. We find that 3 times the degree of the corrected formula is enough, and that "
    "half of it is not.",
    cells=degree_cells,
    errata=(
        Erratum(
            rank=Rank.STATEMENT,
            printed=r"$g = \Theta(\max\lbrace \frac{\log(1/\epsilon)}{\log(\log(1/\epsilon) / B)}, B "
            r"\rbrace)$ for every $B > 1$ and $\epsilon \in (0, 0.1)$.",
            right=r"The denominator is $\log(e + \log(1/\epsilon) / B)$.",
            why=r"The printed logarithm is zero where $\log(1/\epsilon) = B$, so that the degree is not defined "
            r"there. Where $\log(1/\epsilon)$ is just above $B$, the degree exceeds every multiple of what is "
            "needed. Lemma E.2 and Algorithm 1 repeat the formula with $B^3$ for $B$.",
            shown_by="the printed degree is undefined or a hundred times too large",
        ),
    ),
    neighbours=(
        Neighbour(
            r"the degree is of order $\log(1 / \epsilon) / \log(e + \log(1 / \epsilon) / B)$ for every $B$",
            {"degree": "no B"},
        ),
        Neighbour(r"the degree is of order $\max \lbrace \log(1 / \epsilon), B \rbrace$", {"degree": "no log"}),
        Neighbour(r"the degree is of order $\max \lbrace \sqrt{\log(1 / \epsilon)}, B \rbrace$", {"degree": "root"}),
        Neighbour("the degree is as printed", {"degree": "printed"}),
    ),
)
def corollary_d_2(cells: Sequence[CellResult], degree: str = "right") -> Finding:
    """Check that 3 times the formula is sufficient in every cell, and that half of it is not."""
    chosen = _FORMULAS[degree]
    rows = [(cell.parameters["L"], cell.parameters["B"], cell.result) for cell in cells]
    most = max(result["enough"] / chosen(L, B) for L, B, result in rows)
    least = min(result["needed"] / chosen(L, B) for L, B, result in rows)
    missed = sum(math.log(result["error"]) > -L for L, _, result in rows if result["error"])
    over = max(printed(L, B) / result["enough"] for L, B, result in rows)
    numbers: dict[str, float | str] = {
        "settings (B, eps)": len(rows),
        "largest degree that is enough / formula": most,
        "least degree that is needed / formula": least,
        "polynomials of 3 times the formula that were evaluated": sum(r["error"] is not None for _, _, r in rows),
        "of these polynomials, those with an error above eps": missed,
        "largest printed degree / one that is enough": str(over),
    }
    within_bounds = most <= ENOUGH and least >= LEAST and not missed
    return holds_if(
        within_bounds, numbers, shows={"the printed degree is undefined or a hundred times too large": over > 100}
    )


_FORMULAS: dict[str, Callable[[float, float], float]] = {
    "right": formula,
    "printed": printed,
    "no B": lambda L, B: L / math.log(math.e + L / B),
    "no log": lambda L, B: max(L, B),
    "root": lambda L, B: max(math.sqrt(L), B),
}
