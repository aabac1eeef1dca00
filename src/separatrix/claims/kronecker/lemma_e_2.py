"""Lemma E.2 of Alman and Song: the attention tensor of bounded entries has a low-rank approximation.

P is the Chebyshev series of exp on [-B^3, B^3], truncated at 3 times the corrected degree of Corollary D.2 and written
in powers of x. U_1, U_2, U_3 have a column for every monomial, as in Lemma E.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.polynomial import chebyshev
from scipy.special import iv  # type: ignore[import-untyped]
from torch import Tensor

from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.worst_case import paper_rank
from separatrix.attention.reference import tensor_scores
from separatrix.claims.kronecker.corollary_d_2 import ENOUGH, formula
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


def degree_of(B: float, epsilon: float) -> int:
    """The degree of Corollary D.2 for scores up to B^3.

    >>> degree_of(1.05, 1e-3)
    9
    """
    return math.floor(ENOUGH * formula(math.log(1 / epsilon), B**3))


def powers_of_exp(R: float, degree: int) -> list[float]:
    """The coefficients c_0, ..., c_g, in powers of x, of the Chebyshev series of exp on [-R, R], truncated at degree g.

    >>> [round(c, 2) for c in powers_of_exp(1.0, 3)]
    [0.99, 1.0, 0.54, 0.18]
    """
    series = 2 * iv(np.arange(degree + 1), R)
    series[0] /= 2
    return [float(c) / R**k for k, c in enumerate(chebyshev.cheb2poly(series))]


def factors(X: Sequence[Tensor], c: Sequence[float]) -> tuple[list[Tensor], int, int]:
    """Return U_1, U_2, U_3 with U_1 . U_2 . U_3 = P(X_1 . X_2 . X_3), and two counts of multiplications per row.

    The first count is that of Lemma E.1, which multiplies all factors of every monomial. The second makes each column
    from an earlier one with a single multiplication.
    """
    alphas = total_degree(X[0].shape[1], len(c) - 1).alphas.tolist()
    place = {tuple(alpha): at for at, alpha in enumerate(alphas)}
    factors = []
    for x in X:
        columns: list[Tensor] = []
        for alpha in alphas:
            if not any(alpha):
                columns.append(torch.ones_like(x[:, 0]))
                continue
            k = next(i for i, a in enumerate(alpha) if a)
            before = place[tuple(a - (i == k) for i, a in enumerate(alpha))]
            columns.append(columns[before] * x[:, k])
        factors.append(torch.stack(columns, 1))
    weights = [c[sum(a)] * math.factorial(sum(a)) / math.prod(map(math.factorial, a)) for a in alphas]
    factors[0] = factors[0] * torch.tensor(weights, dtype=factors[0].dtype)
    straightforward = sum(max(sum(alpha) - 1, 0) for alpha in alphas)
    return factors, straightforward, sum(any(alpha) for alpha in alphas)


def inputs(n: int, d: int, B: float, corner: bool, count: int, seed: int) -> list[Tensor]:
    """Draw matrices with entries uniform in [-B, B], or all equal to B or -B, so that scores of B^3 and -B^3 occur."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [2 * torch.rand(n, d, generator=generator, dtype=torch.float64) - 1 for _ in range(count)]
    if corner:
        drawn = [x.sign() for x in drawn]
        for x in drawn:
            x[0] = 1.0
        drawn[0][-1] = -1.0
    return [B * x for x in drawn]


@experiment(version=1, name="kronecker.lemma_e2")
def low_rank(n: int, d: int, B: float, epsilon: float, corner: bool, seed: int) -> dict[str, float | int | str]:
    """Return the relative error of U_1 . U_2 . U_3 as an approximation of exp(Q . K_1 . K_2 / d), and its rank."""
    Q, K1, K2 = inputs(n, d, B, corner, 3, seed)
    g = degree_of(B, epsilon)
    (U1, U2, U3), straightforward, incremental = factors((Q / d, K1, K2), powers_of_exp(B**3, g))
    A = torch.exp(tensor_scores(Q, [K1, K2], 1 / d))
    approximation = torch.einsum("ir,jr,lr->ijl", U1, U2, U3)
    return {
        "degree": g,
        "rank": U1.shape[1],
        "printed_rank": str(paper_rank(d, g, 3)),
        "error": float((approximation / A - 1).abs().max()),
        "least": float(approximation.min()),
        "straightforward": straightforward / U1.shape[1],
        "incremental": incremental / U1.shape[1],
    }


@experiment(version=1, name="kronecker.lemma_e2_range")
def outside(B: float, epsilon: float, seed: int) -> dict[str, float]:
    """Return the printed degree for a B and eps that the lemma allows and Corollary D.2 excludes."""
    L = math.log(1 / epsilon)
    return {"formula": max(L / math.log(L / B**3), B**3), "least_positive": 1.0}


def _cells() -> Iterator[Cell]:
    for d, B, epsilon in ((1, 1.01, 0.099), (2, 1.05, 1e-3), (3, 1.3, 1e-2), (2, 1.6, 1e-4), (4, 1.01, 1e-6)):
        for corner in (False, True):
            yield low_rank.cell(seed=0, n=6, d=d, B=B, epsilon=epsilon, corner=corner)
    yield low_rank.cell(seed=0, n=4, d=1, B=1.7, epsilon=1e-9, corner=True)
    for B, epsilon in ((0.01, 0.99), (0.1, 0.5)):
        yield outside.cell(seed=0, B=B, epsilon=epsilon)


TIME = "the straightforward way takes more multiplications an entry the larger g is"
RANGE = "the printed degree is below every constant times 1"


@claim(
    where="Lemma E.2",
    says=r"For entries up to $B$ the tensor $\exp(Q \odot K_1 \odot K_2 / d)$ has an $(\epsilon, "
    r"r)$-approximation $U_1 \odot U_2 \odot U_3$ with $r$ at most $\binom{3 (g + d)}{3 g}$, $g$ of order "
    r"$\max\lbrace \frac{\log(1/\epsilon)}{\log(\log(1/\epsilon) / B^3)}, B^3 \rbrace$, found in time $O(n r g)$.",
    cells=_cells,
    errata=(
        Erratum(
            rank=Rank.PROOF,
            printed="It takes $O(n r)$ time to construct $U_1$, $U_2$ and $U_3$.",
            right="It takes $O(n r g)$ time, as in Lemma E.1, Algorithm 1 and Theorem E.3. A time of $O(n r)$ is "
            "possible too, if every column is made from an earlier one with one multiplication.",
            why="The proof applies Lemma E.1, which multiplies up to $g$ factors for each entry.",
            shown_by=TIME,
        ),
        Erratum(
            rank=Rank.STATEMENT,
            printed=r"For every $B > 0$ and $\epsilon \in (0, 1)$ there are positive integers $g$ and $r$.",
            right=r"The hypotheses are $B > 1$ and $\epsilon \in (0, 0.1)$, as in Corollary D.2 and Definition D.4, "
            "which the proof applies.",
            why=r"For small $B$ and $\epsilon$ near 1 the printed order of $g$ is smaller than any positive "
            r"constant, and where $\log(1/\epsilon) = B^3$ it is not defined.",
            shown_by=RANGE,
        ),
    ),
    neighbours=(
        Neighbour("a third of the degree is enough", {"thirds": 1}),
        Neighbour(r"$r$ at most $\binom{d + g - 1}{g}$", {"rank": "homogeneous"}),
        Neighbour("$U_1, U_2, U_3$ take $O(n r)$ time in the way of Lemma E.1", {"time": "straightforward"}),
    ),
)
def lemma_e_2(
    cells: Sequence[CellResult], thirds: int = 3, rank: str = "printed", time: str = "incremental"
) -> Finding:
    """Check the relative errors, the signs, the number of columns, and that one multiplication per entry is enough."""
    tensors = [cell for cell in cells if "rank" in cell.result]
    # With a third of the degree, the first omitted coefficient is a lower bound on the error.
    errors = [_error(cell, thirds) / cell.parameters["epsilon"] for cell in tensors]
    wide = sum(cell.result["rank"] > _most(cell, rank) for cell in tensors)
    negative = sum(cell.result["least"] < 0 for cell in tensors)
    costs = max(cell.result[time] for cell in tensors)
    by_degree = sorted((cell.result["degree"], cell.result["straightforward"]) for cell in tensors)
    numbers: dict[str, float | str] = {
        "tensors": len(tensors),
        "largest relative error / eps": max(errors),
        "tensors with more columns than printed": wide,
        "tensors with an entry below zero": negative,
        "multiplications per entry, each column from an earlier one": max(
            cell.result["incremental"] for cell in tensors
        ),
        "multiplications per entry in the way of Lemma E.1, by degree": f"{by_degree[0][1]:.2f} at {by_degree[0][0]}, "
        f"{by_degree[-1][1]:.2f} at {by_degree[-1][0]}",
    }
    tiny = min(cell.result["formula"] / cell.result["least_positive"] for cell in cells if "formula" in cell.result)
    numbers["least printed degree where the lemma allows B < 1 and eps > 0.1"] = tiny
    shows = {TIME: by_degree[-1][1] > 2 * by_degree[0][1] > 2, RANGE: tiny < 0.01}
    return holds_if(max(errors) <= 1 and not wide and not negative and costs <= 1, numbers, shows=shows)


def _error(cell: CellResult, thirds: int) -> float:
    if thirds == 3:
        return float(cell.result["error"])
    R, g = cell.parameters["B"] ** 3, cell.result["degree"] * thirds // 3
    n = g + 1
    return float(2 * iv(n, R) / (iv(0, R) + 2 * iv(2 * n, R) + 2 * iv(4 * n, R)))


def _most(cell: CellResult, rank: str) -> int:
    d, g = cell.parameters["d"], cell.result["degree"]
    return int(cell.result["printed_rank"]) if rank == "printed" else math.comb(d + g - 1, g)
