"""Lemmas D.6, D.7 and D.8: softmax self-attention with QK^T = 1 on D0, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import LEMMAS, EntrySlip, Lemma, register
from separatrix.claims.separation.row_lemmas import SIZE, WIDE, Statement, at_corners, both_rows, off_centre, row_lemma
from separatrix.claims.separation.section_d_ones import CLASSES, any_key, cells, weights_exp
from separatrix.separation.statements import Line, Reading, at

_PRINTED_A0 = tuple(line for line in weights_exp(0) if line.part in ("1a", "1b", "2a"))

register(
    Lemma(
        "Lemma D.6",
        r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_0$, $u_{\text{exp}}$ is as in Lemma D.2, with $a_0$ in place "
        r"of $a_1$; $f_{\text{exp}}$ is at most $n^{2 a_0 - 1}$ at $(j_3, j_3)$, $n^{a_0 - 1}$ in the rest of that "
        "column, $1/n$ elsewhere.",
        Reading(
            0,
            "ones",
            "exp",
            (*weights_exp(0), Line("3a", "f", at(row=True, key=True), "<=", lambda v: {2 * v.a0 - 1: 1})),
        ),
        (
            EntrySlip(
                Reading(1, "ones", "exp", _PRINTED_A0),
                typographical(
                    slip="D1 for D0",
                    shown_by="the lemma on D1",
                    printed=r"$\lbrace A_1, A_2, A_3 \rbrace$ from $\mathcal{D}_1$.",
                    right=r"From $\mathcal{D}_0$.",
                    why=r"$u_{\text{exp}}(j_3, j_3) = n^{(1 + a_0)^2}$ is false on $\mathcal{D}_1$, where it is "
                    "$n^{(1 + a_1)^2}$.",
                ),
            ),
            any_key(0, "exp"),
            EntrySlip(
                Reading(
                    0, "ones", "exp", (Line("1a", "u", at(row=True, key=True), "=", lambda v: {(v.a0 + v.c) ** 2: 1}),)
                ),
                typographical(
                    at="Lemma D.6, proof of Part 1a",
                    shown_by="Part 1a without the term that lacks its n",
                    printed=r"$\exp((a_0 \sqrt{\log n} + b \sqrt{\log} + c \sqrt{\log n})^2)$.",
                    right=r"$b \sqrt{\log n}$ in the middle.",
                    why=r"A logarithm has lost its argument. The exponent $(1 + a_0)^2 \log n$ of the next line needs "
                    "the term.",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

LEMMA_D_7 = Lemma(
    "Lemma D.7",
    r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_0$, in row $j_3$, $c_{\text{exp}}$ is at most $n^{2 a_0 - 1} a_0$ "
    "in the first column, at most $(n^{2 a_0 - 1} + (t - 1)/n) b$ in the column of $j_3$'s class, and at most $(t/n) "
    "b$ in the columns of other classes. In other rows the bounds are the same with $a_0$ in place of $2 a_0$. In "
    "the last column it is $c$.",
    Reading(
        0,
        "ones",
        "exp",
        (
            Line("1", "c", at(row=True, column="first"), "<=", lambda v: {2 * v.a0 - 1: v.a0}),
            Line("2", "c", at(row=True, column=CLASSES), "<=", lambda v: {2 * v.a0 - 1: v.t * v.b}),
            Line(
                "2, j_3's class",
                "c",
                at(row=True, column="own"),
                "<=",
                lambda v: {2 * v.a0 - 1: v.b, -1: (v.t - 1) * v.b},
            ),
            Line("2, others", "c", at(row=True, column="other"), "<=", lambda v: {-1: v.t * v.b}),
            Line("3", "c", at(row=True, column="last"), "=", lambda v: {0: v.c}),
            Line("4", "c", at(row=False, column="first"), "<=", lambda v: {v.a0 - 1: v.a0}),
            Line("5", "c", at(row=False, column=CLASSES), "<=", lambda v: {v.a0 - 1: v.t * v.b}),
            Line(
                "5, j_3's class", "c", at(row=False, column="own"), "<=", lambda v: {v.a0 - 1: v.b, -1: (v.t - 1) * v.b}
            ),
            Line("5, others", "c", at(row=False, column="other"), "<=", lambda v: {-1: v.t * v.b}),
            Line("6", "c", at(row=False, column="last"), "=", lambda v: {0: v.c}),
        ),
    ),
    note="The sharper bounds for single columns make d = omega(n^0.02) enough in Theorem D.9, which requires "
    "omega(n^(4 a_0 + 0.02)).",
)

register(LEMMA_D_7, cells, __name__)

CITED = Lemma(
    "Lemma D.8",
    "On D0, c_exp in row j_3 is at most n^(2 a_0 - 1) a_0 in the first column.",
    Reading(0, "ones", "exp", LEMMA_D_7.right.lines[:1]),
    (
        EntrySlip(
            Reading(0, "ones", "exp", (Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: v.a0 / 2}),)),
            typographical(
                slip="reference to the lemma on D1",
                shown_by="Lemma D.3 on D0",
                printed=r"The proof takes the entries of $c_{\text{exp}}$ on $\mathcal{D}_0$ from Lemma D.3.",
                right="From Lemma D.7.",
                why=r"Lemma D.3 is about $\mathcal{D}_1$: its Part 1, $c_{\text{exp}} \ge (a/2) \sqrt{\log n}$ in "
                r"row $j_3$, is false on $\mathcal{D}_0$.",
            ),
        ),
    ),
)
"""The entries that the proof of Lemma D.8 cites; the lemma itself is about random signs."""
LEMMAS[CITED.where] = CITED

row_lemma(
    "Lemma D.8",
    r"With $Q K^\top = \mathbf{1}$ and $d = \omega(n^{4 a_0 + 0.02})$, on $\mathcal{D}_0$, for the rows "
    r"$c_{j_0}$ of $c_{\text{exp}}$: "
    f"{SIZE}.",
    WIDE,
    (
        *both_rows("ones", "exp", "0.01", "0.1", "rarely in size"),
        Statement("2", "ones", "exp", "0.01", "other", "0.1", "near its centre"),
        *at_corners("exp", 0),
    ),
    (off_centre("exp", "0.01"),),
    cited=(CITED, cells),
    home=__name__,
)
