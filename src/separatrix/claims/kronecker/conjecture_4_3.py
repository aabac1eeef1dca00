"""Conjecture 4.3 of Alman and Song: three-way orthogonal vectors are hard."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.kronecker.hypothesis_4_1 import FEWER, conditional, size_cells
from separatrix.claims.ledger import CellResult, Finding, claim


@claim(
    where="Conjecture 4.3",
    says=r"For every $\epsilon > 0$ there is a $c$ such that no algorithm solves three-way orthogonal vectors of "
    r"dimension $c \log n$ in time $n^{3 - \epsilon}$. The Strong Exponential Time Hypothesis implies this.",
    cells=size_cells,
    figures=("chain_sizes",),
    neighbours=(FEWER,),
)
def conjecture_4_3(cells: Sequence[CellResult], exponent: float = 1.0) -> Finding:
    """Run the reduction of Definition 4.2, which proves the implication, with n = 2^(v/3) and dimension 4.27 v."""
    return conditional(
        cells,
        "This is a conjecture about all algorithms, which no program can decide. We ran the reduction that proves the "
        "implication, with n = 2^(v/3) vectors of dimension 4.27 v = 18.5 ln n. (For k-SAT of many clauses the "
        "reduction is preceded by sparsification, which is not run.)",
        exponent,
    )
