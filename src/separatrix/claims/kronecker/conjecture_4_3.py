"""Conjecture 4.3 of Alman and Song: three-way orthogonal vectors are hard."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.kronecker.hypothesis_4_1 import FEWER, conditional, size_cells
from separatrix.claims.ledger import Finding, Found, claim


@claim(
    paper="kronecker",
    where="Conjecture 4.3",
    says=r"For every $\epsilon > 0$ there is a $c$ such that no algorithm solves three-way orthogonal vectors of "
    r"dimension $c \log n$ in time $n^{3 - \epsilon}$. The Strong Exponential Time Hypothesis implies this.",
    cells=size_cells,
    figures=("chain_sizes",),
    neighbours=(FEWER,),
)
def conjecture_4_3(found: Sequence[Found], exponent: float = 1.0) -> Finding:
    """A conjecture; the implication is the reduction of Definition 4.2, with n = 2^(v/3) and dimension 4.27 v."""
    return conditional(
        found,
        "A conjecture about all algorithms. What ran: the reduction that gives the implication, with n = 2^(v/3) "
        "vectors of dimension 4.27 v = 18.5 ln n. (For k-SAT of many clauses the reduction is preceded by "
        "sparsification, which is not run.)",
        exponent,
    )
