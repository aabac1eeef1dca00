"""Lemma D.5 of Alman and Song: the error of the row sums D that errors of the weights A cause.

All comparisons are of integers, so they are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment

EPSILONS = (1, 10, 50, 99)
"""The values of epsilon in thousandths; the lemmas require epsilon in (0, 0.1)."""


@experiment(version=1, name="kronecker.lemma_d5")
def denominators(n: int, thousandths: int, errors: Literal["random", "aligned"], seed: int) -> dict[str, float | int]:
    """Return the largest |D~ - D| / (eps_A D), for relative errors of A up to eps_A = `thousandths` / 1000."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(1, 1001, (n, n * n), generator=generator)
    # A = 1000 a, so that an error of eps_A A is the integer thousandths * a.
    limit = thousandths * a
    share = torch.rand(n, n * n, generator=generator, dtype=torch.float64)
    error = limit if errors == "aligned" else (share * (2 * limit + 1)).long() - limit
    off, allowed = error.sum(1).abs(), limit.sum(1)
    return {"violations": int((off > allowed).sum()), "ratio": float((off / allowed).max()), "rows": n}


@claim(
    where="Lemma D.5",
    says=r"If every entry of a positive matrix $A$ is known up to a relative error of $\epsilon_A$, so is every row "
    "sum.",
    cells=cell_grid(denominators, {"thousandths": EPSILONS, "n": (1, 4, 20), "errors": ("random", "aligned")}),
    figures=("denominator_error",),
    proof="Errors of weights and of their sums",
    neighbours=(Neighbour(r"every row sum is known to $0.9 \epsilon_A$", {"share": 0.9}),),
)
def lemma_d_5(cells: Sequence[CellResult], share: float = 1.0) -> Finding:
    """Check that no row sum has a relative error above share eps_A, for random errors and errors of one sign."""
    violations = sum(cell.result["violations"] + (cell.result["ratio"] > share) for cell in cells)
    return holds_if(
        not violations,
        {
            "rows compared": sum(cell.result["rows"] for cell in cells),
            "rows that exceed the bound": violations,
            "largest error / bound": max(cell.result["ratio"] for cell in cells),
        },
    )
