"""Lemmas F.6, F.7 and F.8: softmax cross-attention on D0, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import LEMMAS, EntrySlip, Lemma, register
from separatrix.claims.separation.row_lemmas import WIDE, at_cross_corners, both_rows, row_lemma
from separatrix.claims.separation.section_f_cross import (
    CLASSES,
    HALF,
    ROW_J2_EVEN,
    ROW_J2_EVEN_ERRATUM,
    cells,
    output,
    weights_exp,
    wrong_index,
)
from separatrix.separation.statements import Line, Reading, at

register(
    Lemma(
        "Lemma F.6",
        r"In cross-attention, on $\mathcal{D}_0$, $u_{\text{exp}}$ is as in Lemma F.2, with $a_0$ in place of $a_1$; "
        r"$f_{\text{exp}}$ is at most $n^{a_0 - 1}$ at $(j_2, j_3)$, at most $1/n$ in the rest of row $j_2$, and "
        "$1/n$ in the other rows.",
        Reading(
            0, "cross", "exp", (*weights_exp(0), Line("3a", "f", at(row=True, key=True), "<=", lambda v: {v.a0 - 1: 1}))
        ),
        (
            EntrySlip(
                Reading(1, "cross", "exp", weights_exp(0)[:1]),
                typographical(
                    slip="D1 for D0",
                    shown_by="the lemma on D1",
                    printed=r"$\lbrace A_1, A_2, A_3 \rbrace$ from $\mathcal{D}_1$.",
                    right=r"From $\mathcal{D}_0$.",
                    why=r"$u_{\text{exp}}(j_2, j_3) = n^{1 + a_0}$ is false on $\mathcal{D}_1$.",
                ),
            ),
            EntrySlip(Reading(0, "cross", "exp", (ROW_J2_EVEN,)), ROW_J2_EVEN_ERRATUM),
        ),
    ),
    cells,
    __name__,
)

LEMMA_F_7 = Lemma(
    "Lemma F.7",
    r"In cross-attention, on $\mathcal{D}_0$, $c_{\text{exp}}$ in row $j_2$ is at most $n^{a_0 - 1}$ in the first "
    "column and at most $t n^{a_0 - 1}$ in the others. In other rows it is at most $1/n$ in the first column and at "
    "most $t/n$ in the others.",
    Reading(0, "cross", "exp", output(lambda v: {v.a0 - 1: 1}, lambda v: {v.a0 - 1: v.t_cross})),
    (
        wrong_index(0, "exp"),
        EntrySlip(
            Reading(0, "cross", "exp", (Line("2", "c", at(row=True, column=CLASSES), "<=", lambda v: {v.a0 - 1: 1}),)),
            typographical(
                at="Lemma F.7, proof of Part 2",
                shown_by="the bound in the proof of Part 2",
                printed=r"$\langle f_{\text{exp}}, (A_3 V)_{i_0} \rangle \le 1 / n^{1 - a_0}$.",
                right="At most $t / n^{1 - a_0}$, as in the statement.",
                why="$(A_3 V)_{i_0}$ has $t$ ones.",
            ),
        ),
    ),
    note="The parts of the lemma are numbered 1, 2, 4, 5; those of the proof are numbered 1 to 4.",
)

register(LEMMA_F_7, cells, __name__)

CITED = Lemma(
    "Lemma F.8",
    "On D0, c_exp in row j_2 is at most n^(a_0 - 1) in the first column.",
    Reading(0, "cross", "exp", LEMMA_F_7.right.lines[:1]),
    (
        EntrySlip(
            Reading(0, "cross", "exp", (Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: HALF}),)),
            typographical(
                slip="reference to the lemma on D1",
                shown_by="Lemma F.3 on D0",
                printed=r"The proof takes the entries of $c_{\text{exp}}$ on $\mathcal{D}_0$ from Lemma F.3, Parts "
                "1 to 6.",
                right="From Lemma F.7, which has four parts, printed as 1, 2, 4 and 5; Lemma F.3 has four as well.",
                why=r"Lemma F.3 is about $\mathcal{D}_1$: its Part 1, $c_{\text{exp}} \ge 1/2$ in row $j_2$, is "
                r"false on $\mathcal{D}_0$. (Both parts of the statement print $\lvert c_{j_0, \sigma} \rvert$ for "
                r"$\lvert \langle c_{j_0}, \sigma \rangle \rvert$.)",
            ),
        ),
    ),
)
"""The entries that the proof of Lemma F.8 cites; the lemma itself is about random signs."""
LEMMAS[CITED.where] = CITED

row_lemma(
    "Lemma F.8",
    r"In cross-attention with $d = \omega(n^{2 a_0 + 0.02})$, on $\mathcal{D}_0$, $\lvert \langle c_{\text{exp}}, "
    r"\sigma \rangle \rvert < 0.5$ with probability $1 - \delta / \text{poly}(n)$, in every row.",
    WIDE,
    (*both_rows("cross", "exp", "0.01", "0.5", "rarely in size"), *at_cross_corners("exp", 0)),
    cited=(CITED, cells),
    home=__name__,
)
