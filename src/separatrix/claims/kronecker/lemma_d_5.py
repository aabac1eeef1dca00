"""Lemma D.5 of Alman and Song: how an error in the weights A reaches their row sums D.

Every comparison is one of integers: nothing is rounded, and "at most" means at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch

from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

EPSILONS = (1, 10, 50, 99)
"""Thousandths: the lemmas ask for an epsilon in (0, 0.1)."""


@experiment(version=1, name="kronecker.lemma_d5")
def denominators(n: int, thousandths: int, errors: Literal["random", "aligned"], seed: int) -> dict[str, float | int]:
    """Lemma D.5: the largest |D~ - D| / (eps_A D), for relative errors of A up to eps_A = `thousandths` / 1000."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(1, 1001, (n, n * n), generator=generator)
    # A = 1000 a, so that an error of eps_A A is the integer thousandths * a.
    limit = thousandths * a
    share = torch.rand(n, n * n, generator=generator, dtype=torch.float64)
    error = limit if errors == "aligned" else (share * (2 * limit + 1)).long() - limit
    off, allowed = error.sum(1).abs(), limit.sum(1)
    return {"violations": int((off > allowed).sum()), "ratio": float((off / allowed).max()), "rows": n}


def _denominator_cells() -> Iterator[Cell]:
    for thousandths in EPSILONS:
        for n in (1, 4, 20):
            for errors in ("random", "aligned"):
                yield denominators.cell(seed=0, n=n, thousandths=thousandths, errors=errors)


@claim(
    paper="kronecker",
    where="Lemma D.5",
    says=r"If every entry of a positive matrix $A$ is known up to a relative error of $\epsilon_A$, so is every row "
    "sum.",
    cells=_denominator_cells,
    figures=("denominator_error",),
    proof="Errors of weights and of their sums",
    neighbours=(Neighbour(r"every row sum is known to $0.9 \epsilon_A$", {"share": 0.9}),),
)
def lemma_d_5(found: Sequence[Found], share: float = 1.0) -> Finding:
    """Integer errors, drawn and all of one sign; no row sum may be off by more than share eps_A."""
    violations = sum(one.result["violations"] + (one.result["ratio"] > share) for one in found)
    return holds_if(
        not violations,
        {
            "rows compared": sum(one.result["rows"] for one in found),
            "rows beyond the bound": violations,
            "largest error / bound": max(one.result["ratio"] for one in found),
        },
    )
