"""Lemma D.6 of Alman and Song: the error of the output that errors of the weights A and the row sums D cause.

All comparisons are of fractions, so they are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import torch

from separatrix.attention.reference import column_kronecker
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.lemma_d_3 import uniform
from separatrix.claims.kronecker.lemma_d_5 import EPSILONS
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim, holds_if
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.lemma_d6")
def outputs(
    n: int,
    d: int,
    bound: int,
    thousandths: int,
    normaliser: Literal["row sums", "row sums, worst errors", "within eps_D", "unrelated"],
    seed: int,
) -> dict[str, float | int]:
    """Return the largest |D~^-1 A~ V - D^-1 A V| / ((eps_A + eps_D) B^2) at eps_A = eps_D = `thousandths` / 1000.

    The first two values of `normaliser` take D = diag(A 1) and D~ = diag(A~ 1). "within eps_D" takes D = diag(A 1) and
    the worst D~ that the lemma allows, (1 - eps_D) D. With "unrelated", D is a sixteenth of the row sums of A, which
    the lemma allows too.
    """
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(1, 1001, (n, n * n), generator=generator)
    V = column_kronecker(*(uniform(generator, bound, n, d) for _ in range(2)))
    limit = thousandths * a
    if normaliser == "row sums":
        share = torch.rand(n, n * n, generator=generator, dtype=torch.float64)
        A_tilde = 1000 * a + (share * (2 * limit + 1)).long() - limit
    elif normaliser == "row sums, worst errors":
        # Where the first column of V = +-B^2 is positive, the weight grows; elsewhere it falls.
        V = torch.where(V >= 0, bound**2, -(bound**2))
        A_tilde = 1000 * a + limit * V[:, 0].sign()
    else:
        V = torch.full_like(V, bound**2)
        A_tilde = 1000 * a + limit
    D = [Fraction(x) for x in (1000 * a).sum(1).tolist()]
    D_tilde = [Fraction(x) for x in A_tilde.sum(1).tolist()]
    if normaliser == "unrelated":
        D = [x / 16 for x in D]
    if normaliser in ("within eps_D", "unrelated"):
        D_tilde = [x * (1 - Fraction(thousandths, 1000)) for x in D]
    N, N_tilde = (1000 * a @ V).tolist(), (A_tilde @ V).tolist()
    largest = max(abs(N_tilde[i][j] / D_tilde[i] - N[i][j] / D[i]) for i in range(n) for j in range(d))
    ratio = largest / (2 * Fraction(thousandths, 1000) * bound**2)
    return {"violated": int(ratio > 1), "ratio": float(ratio), "epsilon": thousandths / 1000}


@claim(
    where="Lemma D.6",
    says=r"Relative errors $\epsilon_A$ of the weights and $\epsilon_D$ of the denominators move no entry of the "
    r"output by more than $(\epsilon_A + \epsilon_D) B^2$.",
    cells=cell_grid(
        outputs,
        {
            "thousandths": EPSILONS,
            "normaliser": ("row sums", "row sums, worst errors", "within eps_D", "unrelated"),
            "n d bound": ((2, 1, 2), (6, 3, 2), (10, 4, 5)),
        },
    ),
    figures=("output_error",),
    errata=(
        Erratum(
            printed=r"$D$ and $\tilde{D}$ are any positive diagonal matrices with "
            r"$\lvert \tilde{D} - D \rvert \le \epsilon_D D$.",
            right=r"$D = \operatorname{diag}(A \mathbf{1})$ and "
            r"$\tilde{D} = \operatorname{diag}(\tilde{A} \mathbf{1})$, as in Lemma D.5.",
            why=r"The proof uses that the rows of $\tilde{D}^{-1} \tilde{A}$ and of $D^{-1} A$ sum to one. If the "
            r"rows of the first do not, $\tilde{A} = (1 + \epsilon_A) A$ and $\tilde{D} = (1 - \epsilon_D) D$ exceed "
            r"the bound by the factor $1 / (1 - \epsilon_D)$; if those of the second do not, the bound can be "
            "exceeded by any factor.",
            rank=Rank.STATEMENT,
            at="Lemma D.6, hypotheses",
            shown_by="other D and D~ exceed the bound",
        ),
    ),
    neighbours=(
        Neighbour(
            r"$D$ and $\tilde{D}$ may be any two matrices within $\epsilon_D$ of each other, as printed",
            {"any_sums": True},
        ),
        Neighbour(r"by more than $(\epsilon_A + \epsilon_D) B$", {"power": 1}),
        Neighbour(r"by more than $0.49 (\epsilon_A + \epsilon_D) B^2$", {"factor": 0.49}),
    ),
)
def lemma_d_6(cells: Sequence[CellResult], any_sums: bool = False, power: int = 2, factor: float = 1.0) -> Finding:
    """Check that the bound holds with row sums, and that it is exceeded with the printed hypotheses."""
    tied = [cell.result for cell in cells if any_sums or str(cell.parameters["normaliser"]).startswith("row sums")]
    free = [cell.result for cell in cells if not str(cell.parameters["normaliser"]).startswith("row sums")]
    beyond = sum(
        cell.result["ratio"] * cell.parameters["bound"] ** (2 - power) > factor
        for cell in cells
        if str(cell.parameters["normaliser"]).startswith("row sums")
    )
    numbers: dict[str, float | str] = {
        "largest error / bound, D and D~ row sums": max(result["ratio"] for result in tied),
        "largest error / bound, as printed": max(result["ratio"] for result in free),
        "cells that exceed the bound, D and D~ row sums": sum(result["violated"] for result in tied),
        "cells that exceed the bound, as printed": sum(result["violated"] for result in free),
    }
    shows = {"other D and D~ exceed the bound": any(result["violated"] for result in free)}
    return holds_if(not beyond and not any(result["violated"] for result in tied), numbers, shows=shows)
