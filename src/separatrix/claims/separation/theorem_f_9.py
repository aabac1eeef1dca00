"""Theorem F.9: in cross-attention, F_exp = 0 on D0."""

from __future__ import annotations

from separatrix.claims.separation.network_theorems import (
    NOT_SHARP,
    WIDER,
    WRONG_SET,
    cites_wrongly,
    fires_there,
    silent,
    unlike,
)

silent(
    "Theorem F.9",
    r"In cross-attention with $d \in [\omega(n^{2 a_0 + 0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{exp}} = 0$ with "
    r"probability $1 - \delta / \text{poly}(n)$.",
    "exp_silent_on_d0",
    (WRONG_SET, cites_wrongly("Lemma F.4", "Lemma F.8")),
    lambda cells: {**fires_there(cells), **unlike("exp_silent_on_d0")(cells)},
    "cross",
    paths=WIDER,
    note=NOT_SHARP,
    home=__name__,
)
