"""Theorem F.5: in cross-attention, F_exp > 0 on D1; and how fast d must grow."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Finding, claim
from separatrix.claims.separation.growth import FIXED, cells, paths_finding
from separatrix.claims.separation.network_theorems import fires
from separatrix.separation.paths import PATHS

fires(
    "Theorem F.5",
    r"In cross-attention with $d \in [\omega(n^{0.02}), n]$ and $\tau = 0.9$, on $\mathcal{D}_1$, $F_{\text{exp}} > "
    r"0$ with probability $1 - \delta / \text{poly}(n)$.",
    "cross",
    figures=("failure_of_the_parts",),
    home=__name__,
)


@claim(
    where="Theorem F.5",
    part="paths",
    says=r"In cross-attention, with $d = \omega(n^{0.02})$, $d \le n$ and $m$ of order $\log(n / \delta)$, the "
    "separation succeeds with high probability.",
    cells=lambda: cells("cross", PATHS["cross"], 1.0),
    figures=("success_along_paths",),
    neighbours=(FIXED,),
)
def paths_cross(cells: Sequence[CellResult], also: str = "") -> Finding:
    return paths_finding(
        cells,
        "At a fixed d the probability of success falls with n, because m grows. The theorem is not sharp: g = d - 1 "
        "= log n is enough.",
        also,
    )
