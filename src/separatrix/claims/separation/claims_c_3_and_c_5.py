"""Claims C.3 and C.5: the rows of linear and softmax attention are blocks of a Kronecker product."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Finding, Found, Neighbour, claim
from separatrix.claims.separation.fact_a_1 import trick_cells, trick_finding


@claim(
    paper="separation",
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
def claim_c_3(found: Sequence[Found], block: str = "blocks", total: str = "sums") -> Finding:
    """Over random integers, for which both sides are exact."""
    return trick_finding(found, (block, total), {})


@claim(
    paper="separation",
    where="Claim C.5",
    says=r"$u_{\text{exp}}(A, x)_{j_0}$ is the exponential of row $j_0$ of $A_1 Q K^\top A_2^\top$, and "
    r"$\alpha_{\text{exp}}$ is its sum.",
    cells=trick_cells,
    proof="Blocks of a Kronecker product",
    neighbours=(Neighbour(r"the exponential of column $j_0$ of $A_1 Q K^\top A_2^\top$", {"block": "turned"}),),
)
def claim_c_5(found: Sequence[Found], block: str = "blocks") -> Finding:
    """The exponents agree as integers, so their exponentials and the sums of these do."""
    return trick_finding(found, (block,), {})
