"""Theorem D.13: with QK^T = 1, F_lin = 0 on D1."""

from __future__ import annotations

from separatrix.claims.separation.network_theorems import BOUNDED_A1, cites_wrongly, silent, unlike

silent(
    "Theorem D.13",
    r"With $Q K^\top = \mathbf{1}$, $d \in [\omega(n^{0.02}), n]$ and $a_1 = O(1)$, on $\mathcal{D}_1$, "
    r"$F_{\text{lin}} = 0$ with probability $1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d1",
    (cites_wrongly("Lemma D.4", "Lemma D.12"), BOUNDED_A1),
    unlike("lin_silent_on_d1"),
    "ones",
    "ones, least a1",
    home=__name__,
)
