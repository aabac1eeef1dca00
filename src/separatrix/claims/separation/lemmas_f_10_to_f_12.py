"""Lemmas F.10, F.11 and F.12: linear cross-attention on D1, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.separation.entry_lemmas import Lemma, register
from separatrix.claims.separation.row_lemmas import NARROW, at_cross_corners, both_rows, row_lemma
from separatrix.claims.separation.section_f_cross import cells, lin_output, weights_lin, wrong_index
from separatrix.separation.statements import Reading

register(
    Lemma(
        "Lemma F.10",
        r"Cross-attention, $\mathcal{D}_1$: $u_{\text{lin}}$ is $(1 + a_1) \log n$ at $(j_2, j_3)$ and $\log n$ "
        r"elsewhere; $f_{\text{lin}}$ is at most $(1 + a_1)/n$ there, at most $1/n$ in the rest of row $j_2$, and "
        "$1/n$ in the other rows.",
        Reading(1, "cross", "lin", weights_lin(1)),
    ),
    cells,
    __name__,
)


register(
    Lemma(
        "Lemma F.11",
        r"Cross-attention, $\mathcal{D}_1$: $c_{\text{lin}}$ in row $j_2$ is at most $(1 + a_1)/n$ in the first "
        "column and $(1 + a_1) t/n$ in the others; in other rows at most $1/n$ and $t/n$.",
        lin_output(1),
        (wrong_index(1, "lin"),),
        note="It is printed for D0, where its bounds with a_1 are true and beside the point: the section, and "
        "Theorem F.13 which needs it, are about D1. Lemma F.12 is printed for D0 as well.",
    ),
    cells,
    __name__,
)


row_lemma(
    "Lemma F.12",
    r"Cross-attention, $\mathcal{D}_1$, $d = \omega(n^{0.02})$: "
    r"$\lvert \langle c_{\text{lin}}, \sigma \rangle \rvert < 0.5$ with probability $1 - \delta / \text{poly}(n)$, "
    "in every row.",
    NARROW,
    (*both_rows("cross", "lin", "3", "0.5", "rarely in size"), *at_cross_corners("lin", 1)),
    home=__name__,
)
