"""Theorem D.17: with QK^T = 1, F_lin = 0 on D0."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Erratum, Rank
from separatrix.claims.separation.network_theorems import silent


def _two_networks(cells: Sequence[CellResult]) -> dict[str, bool]:
    pairs = [
        pair for cell in cells for pair in zip(*(cell.result[f"{x}_silent_on_d0"] for x in ("exp", "lin")), strict=True)
    ]
    apart = [abs(x - y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    return {"F_exp and F_lin differ on D0": max(apart) > 1e-3}


silent(
    "Theorem D.17",
    r"With $Q K^\top = \mathbf{1}$ and $d \in [\omega(n^{0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{lin}} = 0$ with "
    r"probability $1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d0",
    (
        Erratum(
            printed=r"$F_{\text{exp}}$ is defined, with $c_{\text{exp}}$; the heading of the section names "
            r"$F_{\text{exp}}$ too.",
            right=r"The theorem should define $F_{\text{lin}}$, with $c_{\text{lin}}$.",
            why=r"The conclusion is about $F_{\text{lin}}$, and the two networks are not the same on $\mathcal{D}_0$.",
            rank=Rank.TYPOGRAPHICAL,
            shown_by="F_exp and F_lin differ on D0",
        ),
    ),
    _two_networks,
    "ones",
    home=__name__,
)
