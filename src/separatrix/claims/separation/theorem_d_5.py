"""Theorem D.5: with QK^T = 1, F_exp > 0 on D1."""

from __future__ import annotations

from separatrix.claims.separation.network_theorems import fires

fires(
    "Theorem D.5",
    r"With $Q K^\top = \mathbf{1}$, $d \in [\omega(n^{0.02}), n]$ and $\tau = (c + 0.1) \sqrt{\log n}$: on "
    r"$\mathcal{D}_1$, $F_{\text{exp}} > 0$ with probability $1 - \delta / \text{poly}(n)$.",
    "ones",
    "ones, least a1",
    figures=("failure_of_the_parts",),
    home=__name__,
)
