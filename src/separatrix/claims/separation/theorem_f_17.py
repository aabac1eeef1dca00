"""Theorem F.17: in cross-attention, F_lin = 0 on D0."""

from __future__ import annotations

from separatrix.claims.separation.network_theorems import cites_wrongly, silent, unlike

silent(
    "Theorem F.17",
    r"In cross-attention with $d \in [\omega(n^{0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{lin}} = 0$ with probability "
    r"$1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d0",
    (cites_wrongly("Lemma F.4", "Lemma F.16"),),
    unlike("lin_silent_on_d0"),
    "cross",
    home=__name__,
)
