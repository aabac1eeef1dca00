"""Theorem D.9: with QK^T = 1, F_exp = 0 on D0."""

from __future__ import annotations

from separatrix.claims.separation.network_theorems import NOT_SHARP, WIDER, WRONG_SET, fires_there, silent

silent(
    "Theorem D.9",
    r"With $Q K^\top = \mathbf{1}$ and $d \in [\omega(n^{4 a_0 + 0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{exp}} = 0$ "
    r"with probability $1 - \delta / \text{poly}(n)$.",
    "exp_silent_on_d0",
    (WRONG_SET,),
    fires_there,
    "ones",
    paths=WIDER,
    note=NOT_SHARP,
    home=__name__,
)
