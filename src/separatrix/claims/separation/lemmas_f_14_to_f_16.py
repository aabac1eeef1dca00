"""Lemmas F.14, F.15 and F.16: linear cross-attention on D0, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import EntrySlip, Lemma, register
from separatrix.claims.separation.row_lemmas import NARROW, at_cross_corners, both_rows, row_lemma
from separatrix.claims.separation.section_f_cross import CLASSES, cells, lin_output, weights_lin
from separatrix.separation.statements import Line, Reading, at

register(
    Lemma(
        "Lemma F.14",
        r"In cross-attention, on $\mathcal{D}_0$, $u_{\text{lin}}$ and $f_{\text{lin}}$ are as in Lemma F.10, with "
        "$a_0$ in place of $a_1$.",
        Reading(0, "cross", "lin", weights_lin(0)),
        (
            EntrySlip(
                Reading(1, "cross", "lin", weights_lin(0)[:1]),
                typographical(
                    slip="D1 for D0",
                    shown_by="the lemma on D1",
                    printed=r"$\lbrace A_1, A_2, A_3 \rbrace$ from $\mathcal{D}_1$.",
                    right=r"From $\mathcal{D}_0$.",
                    why=r"$u_{\text{lin}}(j_2, j_3) = (1 + a_0) \log n$ is false on $\mathcal{D}_1$.",
                ),
            ),
            EntrySlip(
                Reading(
                    0, "cross", "lin", (Line("1", "u", at(row_is_j3=True, key=True), "=", lambda v: {0: 1 + v.a0}),)
                ),
                typographical(
                    slip="j_3 for j_2",
                    shown_by="Part 1 in row j_3",
                    printed=r"Part 1: for $j_0 = j_3$ and $j_1 = j_3$, $u_{\text{lin}} = (1 + a_0) \log n$.",
                    right="For $j_0 = j_2$ and $j_1 = j_3$.",
                    why="$a_0$ is in row $j_2$ of $A_1$; compare Lemma F.10.",
                ),
            ),
            EntrySlip(
                Reading(
                    0,
                    "cross",
                    "lin",
                    (
                        Line("4", "f", at(row_is_j3=False, key=True), "<=", lambda v: {-1: 1}),
                        Line("5", "f", at(row_is_j3=False), "=", lambda v: {-1: 1}),
                    ),
                ),
                typographical(
                    slip="j_3 for j_2",
                    shown_by="Parts 4 and 5 in rows other than j_3",
                    printed=r"Parts 4 and 5: for $j_0 \ne j_3$, $f_{\text{lin}} \le 1/n$ at $j_1 = j_3$, and "
                    r"$f_{\text{lin}} = 1/n$.",
                    right=r"Part 4: $j_0 = j_2$, $j_1 \ne j_3$. Part 5: $j_0 \ne j_2$. (Part 3: $j_0 = j_2$, "
                    r"$j_1 = j_3$. Part 2: $j_0 \ne j_2$ or $j_1 \ne j_3$.)",
                    why="The parts are as in Lemma F.10; both printed parts fail in row $j_2$ unless $j_2 = j_3$.",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

register(
    Lemma(
        "Lemma F.15",
        r"In cross-attention, on $\mathcal{D}_0$, $c_{\text{lin}}$ is as in Lemma F.11, with $a_0$ in place of $a_1$; "
        "in the rows other than $j_2$ it is equal to $t/n$ in the column of a class.",
        Reading(
            0,
            "cross",
            "lin",
            (
                *lin_output(0).lines,
                Line("4, equal", "c", at(row=False, column=CLASSES), "=", lambda v: {-1: v.t_cross}),
            ),
        ),
        (
            EntrySlip(
                Reading(
                    0, "cross", "lin", (Line("4, equal", "c", at(row=False, column=CLASSES), "=", lambda v: {-1: v.t}),)
                ),
                typographical(
                    shown_by="the lemma with n = t (d - 2)",
                    printed="$n = t (d - 2)$.",
                    right="$n = t (d - 1)$.",
                    why=r"By Definition F.1 a class has $t = n / (d - 1)$ rows, so that $c_{\text{lin}}$ is $t/n = 1 "
                    "/ (d - 1)$ there.",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

row_lemma(
    "Lemma F.16",
    r"In cross-attention with $d = \omega(n^{0.02})$, on $\mathcal{D}_0$, $\lvert \langle c_{\text{lin}}, \sigma "
    r"\rangle \rvert < 0.5$ with probability $1 - \delta / \text{poly}(n)$, in every row.",
    NARROW,
    (*both_rows("cross", "lin", "0.01", "0.5", "rarely in size"), *at_cross_corners("lin", 0)),
    home=__name__,
)
