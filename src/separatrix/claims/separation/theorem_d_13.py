"""Theorem D.13: with QK^T = 1, F_lin = 0 on D1."""

from __future__ import annotations

from separatrix.claims.separation.network_theorems import cites_wrongly, silent, unlike

silent(
    "Theorem D.13",
    r"With $Q K^\top = \mathbf{1}$ and $d \in [\omega(n^{0.02}), n]$, on $\mathcal{D}_1$, $F_{\text{lin}} = 0$ with "
    r"probability $1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d1",
    (cites_wrongly("Lemma D.4", "Lemma D.12"),),
    unlike("lin_silent_on_d1"),
    "ones",
    "ones, least a1",
    home=__name__,
)
