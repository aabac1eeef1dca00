"""Lemmas F.10, F.11 and F.12: linear cross-attention on D1, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import LEMMAS, EntrySlip, Lemma, register
from separatrix.claims.separation.row_lemmas import NARROW, at_cross_corners, both_rows, bounded_a1, row_lemma
from separatrix.claims.separation.section_f_cross import cells, lin_output, weights_lin, wrong_index
from separatrix.separation.statements import Reading

ON_D0 = Reading(0, "cross", "lin", weights_lin(1)[:1])
"""Part 1 of Lemma F.10, u_lin(j_2, j_3) = (1 + a_1) log n, on D0."""

register(
    Lemma(
        "Lemma F.10",
        r"In cross-attention, on $\mathcal{D}_1$, $u_{\text{lin}}$ is $(1 + a_1) \log n$ at $(j_2, j_3)$ and $\log "
        r"n$ elsewhere; $f_{\text{lin}}$ is at most $(1 + a_1)/n$ at $(j_2, j_3)$, at most $1/n$ in the rest of row "
        "$j_2$, and $1/n$ in the other rows.",
        Reading(1, "cross", "lin", weights_lin(1)),
    ),
    cells,
    __name__,
)

register(
    Lemma(
        "Lemma F.11",
        r"In cross-attention, on $\mathcal{D}_1$, $c_{\text{lin}}$ in row $j_2$ is at most $(1 + a_1)/n$ in the "
        "first column and at most $(1 + a_1) t/n$ in the others. In other rows it is at most $1/n$ in the first "
        "column and at most $t/n$ in the others.",
        lin_output(1),
        (
            wrong_index(1, "lin"),
            EntrySlip(
                ON_D0,
                typographical(
                    slip="D0 for D1",
                    shown_by="Lemma F.10 on D0",
                    printed=r"$\lbrace A_1, A_2, A_3 \rbrace$ from $\mathcal{D}_0$.",
                    right=r"From $\mathcal{D}_1$.",
                    why=r"The section and Theorem F.13, which needs the lemma, are about $\mathcal{D}_1$, and its "
                    r"proof takes the weights from Lemma F.10, whose Part 1 is false on $\mathcal{D}_0$. On "
                    r"$\mathcal{D}_0$ the bounds with $a_1$ are true, but they are not what is needed.",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

CITED = Lemma(
    "Lemma F.12",
    "On D1, c_lin in row j_2 is at most (1 + a_1)/n in the first column.",
    Reading(1, "cross", "lin", lin_output(1).lines[:1]),
    (
        EntrySlip(
            ON_D0,
            typographical(
                slip="D0 for D1",
                shown_by="Lemma F.10 on D0",
                printed=r"$\lbrace A_1, A_2, A_3 \rbrace$ from $\mathcal{D}_0$; the proof takes their entries from "
                "Lemma F.11, Parts 1 to 6.",
                right=r"From $\mathcal{D}_1$; Lemma F.11 has four parts. (Lemmas F.4 and F.16 also cite Parts 4, 5 "
                "and 6 of lemmas that have four.)",
                why=r"Theorem F.13, which needs the lemma, is about $\mathcal{D}_1$, and the weights behind Lemma "
                r"F.11 are those of Lemma F.10, whose Part 1 is false on $\mathcal{D}_0$.",
            ),
        ),
    ),
)
"""The entries that the proof of Lemma F.12 cites; the lemma itself is about random signs."""
LEMMAS[CITED.where] = CITED

row_lemma(
    "Lemma F.12",
    r"In cross-attention with $d = \omega(n^{0.02})$ and $a_1 = O(1)$, on $\mathcal{D}_1$, $\lvert \langle "
    r"c_{\text{lin}}, \sigma \rangle \rvert < 0.5$ with probability $1 - \delta / \text{poly}(n)$, in every row.",
    NARROW,
    (*both_rows("cross", "lin", "3", "0.5", "rarely in size"), *at_cross_corners("lin", 1)),
    (
        bounded_a1(
            "cross",
            "n^1",
            "0.5",
            "At $a_1 = n$ row $j_2$ has two entries of about $1/2$, in the first column and in that of $j_3$'s class, "
            "and half of the sign vectors exceed the bound.",
        ),
    ),
    cited=(CITED, cells),
    home=__name__,
)
