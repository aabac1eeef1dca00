"""Claims C.3 and C.5: the rows of linear and softmax attention are blocks of a Kronecker product."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim
from separatrix.claims.separation.fact_a_1 import trick_cells, trick_finding


@claim(
    where="Claim C.3",
    says=r"Block $j_0$ of $(A_1 \otimes A_2) \text{vec}(Q K^\top)$ is row $j_0$ of $A_1 Q K^\top A_2^\top$. It is "
    r"called $u_{\text{lin}}$, and $\alpha_{\text{lin}}$ is its sum.",
    cells=trick_cells,
    proof="Blocks of a Kronecker product",
    neighbours=(
        Neighbour(r"it is column $j_0$ of $A_1 Q K^\top A_2^\top$", {"block": "turned"}),
        Neighbour(r"$\alpha_{\text{lin}}$ is the sum of column $j_0$", {"total": "turned_sums"}),
    ),
)
def claim_c_3(cells: Sequence[CellResult], block: str = "blocks", total: str = "sums") -> Finding:
    """Compare both sides at random integers, where they are exact."""
    return trick_finding(cells, (block, total), {})


@claim(
    where="Claim C.5",
    says=r"$u_{\text{exp}}(A, x)_{j_0}$ is the exponential of row $j_0$ of $A_1 Q K^\top A_2^\top$, and "
    r"$\alpha_{\text{exp}}$ is its sum.",
    cells=trick_cells,
    proof="Blocks of a Kronecker product",
    neighbours=(Neighbour(r"the exponential of column $j_0$ of $A_1 Q K^\top A_2^\top$", {"block": "turned"}),),
)
def claim_c_5(cells: Sequence[CellResult], block: str = "blocks") -> Finding:
    """Compare the exponents as integers; if they agree, so do their exponentials and the sums of these."""
    return trick_finding(cells, (block,), {})
