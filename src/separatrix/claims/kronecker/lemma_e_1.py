"""Lemma E.1 of Alman and Song: P(X . Y . Z) has low rank, and the exact value of that rank.

All factors of a monomial of <u, v, w>^p have the same multi-index, so C(d + g, g) columns suffice, and the lemma counts
C(3 (d + g), 3 g). All computations are exact, modulo the prime 2^31 - 1 at random points: a false identity passes with
probability below 3 (g + 1) / 2^31, and a rank modulo the prime is a lower bound on the rank over the reals for almost
every input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.worst_case import paper_rank
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.hardness.modular import PRIME, polynomial, powers, rank_modulo
from separatrix.lab.registry import experiment

_ROWS = 5
"""The number n of rows in the test of the identity."""

_LARGEST_ELIMINATION = 500
"""The largest rank up to which the lower bound on the number of columns is computed."""


@experiment(version=1, name="kronecker.lemma_e1")
def low_rank(d: int, degree: int, seed: int) -> dict[str, int | str | None]:
    """Compare P(M) with U_1 . U_2 . U_3 of C(d + g, g) columns, and return the rank of P(M) for large enough n.

    `printed_mismatches` is the comparison with P truncated at the power d, as in the printed sum of the lemma's proof.
    """
    rng = np.random.default_rng(seed)
    c = [int(x) for x in rng.integers(1, PRIME, degree + 1)]
    X, Y, Z = (rng.integers(0, PRIME, (_ROWS, d)) for _ in range(3))
    alphas = total_degree(d, degree).alphas
    weights = np.array([c[sum(a)] * _multinomial(a) % PRIME for a in alphas.tolist()])
    U1, U2, U3 = powers(X, alphas) * weights % PRIME, powers(Y, alphas), powers(Z, alphas)
    pairs = U2[:, None] * U3[None] % PRIME
    product = (U1[:, None, None] * pairs[None] % PRIME).sum(-1) % PRIME
    yz = Y[:, None] * Z[None] % PRIME
    M = (X[:, None, None] * yz[None] % PRIME).sum(-1) % PRIME
    P = polynomial(c, M)
    needed = None
    if len(alphas) <= _LARGEST_ELIMINATION:
        # One more row and column than the rank: P(<x_i, y_j, z_j>) is a part of the n x n^2 matrix P(M).
        points, y, z = (rng.integers(0, PRIME, (len(alphas) + 1, d)) for _ in range(3))
        w = y * z % PRIME
        inner = sum((points[:, None, a] * w[None, :, a] % PRIME for a in range(d)), np.zeros((1, 1), np.int64)) % PRIME
        needed = rank_modulo(polynomial(c, inner))
    return {
        "columns": len(alphas),
        "entries": P.size,
        "mismatches": int((product != P).sum()),
        "printed_mismatches": int((polynomial(c[: d + 1], M) != P).sum()),
        "needed": needed,
        # The count is a string, because some JSON readers round integers above 2^53.
        "printed": str(paper_rank(d, degree, 3)),
        "algorithm": str(math.comb(3 * (degree + d), 3 * d)),
    }


def _multinomial(alpha: Sequence[int]) -> int:
    return math.factorial(sum(alpha)) // math.prod(math.factorial(a) for a in alpha)


_cells = cell_grid(low_rank, {"d": (1, 2, 3, 4, 6, 8), "degree": (0, 1, 2, 3, 4, 6)})


@claim(
    where="Lemma E.1",
    says=r"For a polynomial $P$ of degree $g$, the tensor $P(X \odot Y \odot Z)$ is $U_1 \odot U_2 \odot U_3$ with "
    r"$\binom{3 (d + g)}{3 g}$ columns, which can be built in time $O(n r g)$. We find that $\binom{d + g}{g}$ "
    "columns are enough, and that fewer are not.",
    cells=_cells,
    figures=("sharp_rank",),
    neighbours=(
        Neighbour(r"$\binom{d + g}{g} - 1$ columns are enough, and fewer are not", {"fewer": 1}),
        Neighbour(
            r"at most $\binom{d + g - 1}{g}$ columns are needed",
            {"most": lambda d, degree: math.comb(d + degree - 1, degree)},
        ),
    ),
)
def lemma_e_1(
    cells: Sequence[CellResult], fewer: int = 0, most: Callable[[int, int], int] = lambda d, g: paper_rank(d, g, 3)
) -> Finding:
    """Check that the lemma's count, `most`, is an upper bound, and that C(d + g, g) is exact wherever it is tested.

    A cell with another rank was once *undecided*, because the lemma does not state the rank. The claim states it, so
    such a cell fails the claim now.
    """
    results = [(cell.parameters["d"], cell.parameters["degree"], cell.result) for cell in cells]
    mismatches = sum(result["mismatches"] for _, _, result in results)
    wide = sum(result["columns"] > most(d, degree) for d, degree, result in results)
    sharp = [result for _, _, result in results if result["needed"] is not None]
    mismatched = sum(result["needed"] != result["columns"] - fewer for result in sharp)
    saved = max(int(result["printed"]) / result["columns"] for _, _, result in results)
    numbers: dict[str, float | str] = {
        "entries that differ": mismatches,
        "cells with more columns than printed": wide,
        "cells where C(d + g, g) is shown to be needed": f"{len(sharp) - mismatched} of {len(sharp)}",
        "largest printed count / needed": saved,
        "Algorithm 1's count is the lemma's": "yes"
        if all(result["printed"] == result["algorithm"] for _, _, result in results)
        else "no",
    }
    note = (
        "The printed count is an upper bound. Algorithm 1 writes C(3 (g + d), 3 d), which is the same number: "
        "3 (g + d) - 3 g = 3 d."
    )
    return holds_if(not (mismatches or wide or mismatched) and bool(sharp), numbers, note)


@claim(
    where="Lemma E.1",
    part="proof",
    says="The proof begins by writing $P$ as a sum of its monomials.",
    cells=_cells,
    errata=(
        typographical(
            printed=r"$P(x) = \sum_{i = 0}^d c_i x^i$.",
            right=r"$P(x) = \sum_{i = 0}^g c_i x^i$.",
            why="$P$ has degree $g$; $d$ is the width of $X$, $Y$ and $Z$. Where $g > d$, the printed sum is "
            "another polynomial.",
            shown_by="the sum to d is another polynomial where g > d",
        ),
    ),
    neighbours=(Neighbour("the sum goes to $d$, as printed", {"sum_to_g": "printed_mismatches"}),),
)
def lemma_e_1_proof(cells: Sequence[CellResult], sum_to_g: str = "mismatches") -> Finding:
    """Check that the sum to g is P in every cell, and that the sum to d differs from it where g > d."""
    right = sum(cell.result[sum_to_g] for cell in cells)
    longer = [cell for cell in cells if cell.parameters["degree"] > cell.parameters["d"]]
    differ = sum(cell.result["printed_mismatches"] > 0 for cell in longer)
    numbers: dict[str, float | str] = {
        "entries that differ, sum to g": right,
        "cells with g > d where the sum to d is another polynomial": f"{differ} of {len(longer)}",
    }
    return holds_if(not right, numbers, shows={"the sum to d is another polynomial where g > d": differ > 0})
