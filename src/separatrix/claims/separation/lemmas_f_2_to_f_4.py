"""Lemmas F.2, F.3 and F.4: softmax cross-attention on D1, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import EntrySlip, Lemma, register
from separatrix.claims.separation.row_lemmas import NARROW, Statement, row_lemma
from separatrix.claims.separation.section_f_cross import (
    CLASSES,
    HALF,
    ROW_J2_EVEN,
    ROW_J2_EVEN_ERRATUM,
    cells,
    weights_exp,
)
from separatrix.separation.statements import Line, Reading, at

register(
    Lemma(
        "Lemma F.2",
        r"In cross-attention, on $\mathcal{D}_1$, $u_{\text{exp}}$ is $n^{1 + a_1}$ at $(j_2, j_3)$ and $n$ "
        r"elsewhere; $f_{\text{exp}}$ is at least $1/2$ at $(j_2, j_3)$, at most $1/n$ in the rest of row $j_2$, and "
        "$1/n$ in the other rows.",
        Reading(
            1, "cross", "exp", (*weights_exp(1), Line("3a", "f", at(row=True, key=True), ">=", lambda v: {0: HALF}))
        ),
        (
            EntrySlip(Reading(1, "cross", "exp", (ROW_J2_EVEN,)), ROW_J2_EVEN_ERRATUM),
            EntrySlip(
                Reading(1, "cross, columns to d - 1", "exp", weights_exp(1)[1:4]),
                typographical(
                    at="Definition F.1",
                    shown_by="the lemma with columns to d - 1",
                    printed=r"The second column to $d - 1$ columns of $A_1$ are $\log n$, and those of $A_2$ the "
                    "stacked $I_{d - 1}$.",
                    right="These are the columns from the second to column $d$, the last.",
                    why=r"$I_{d - 1}$ has $d - 1$ columns. With one column less, $u_{\text{exp}}$ is 1 and not $n$ "
                    "for the class that has no column. (The proofs of Lemmas F.3, F.7, F.11 and F.15 call the first "
                    "column of Type I and the others of Type II, which Definition F.1 does not.)",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

register(
    Lemma(
        "Lemma F.3",
        r"In cross-attention, on $\mathcal{D}_1$, $c_{\text{exp}}$ in row $j_2$ is at least $1/2$ in the first "
        "column and in the column of $j_3$'s class, and at most $t/n$ in the other columns. In other rows it is at "
        "most $1/n$ in the first column and at most $t/n$ in the others.",
        Reading(
            1,
            "cross",
            "exp",
            (
                Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: HALF}),
                Line("2, j_3's class", "c", at(row=True, column="own"), ">=", lambda v: {0: HALF}),
                Line("2, others", "c", at(row=True, column="other"), "<=", lambda v: {-1: v.t_cross}),
                Line("3", "c", at(row=False, column="first"), "<=", lambda v: {-1: 1}),
                Line("4", "c", at(row=False, column=CLASSES), "<=", lambda v: {-1: v.t_cross}),
            ),
        ),
        note="The lemma has four parts, as there is no last column; Lemmas F.4 and F.8 cite Parts 1 to 6 of it.",
    ),
    cells,
    __name__,
)

row_lemma(
    "Lemma F.4",
    r"In cross-attention with $d = \omega(n^{0.02})$, on $\mathcal{D}_1$, $\langle c_{\text{exp}}, \sigma \rangle "
    r"\ge 0.9$ with probability at least $1/10$ in row $j_2$, and $\lvert \langle c_{\text{exp}}, \sigma \rangle "
    r"\rvert < 0.5$ with probability $1 - \delta / \text{poly}(n)$ in the other rows.",
    NARROW,
    (
        Statement("1", "cross", "exp", "3", "special", "0.9", "often"),
        Statement("2", "cross", "exp", "3", "other", "0.5", "rarely in size"),
        Statement("1", "cross, large a1", "exp", "10", "special", "0.9", "often"),
        Statement("1", "cross, least a1", "exp", "1001/1000", "special", "0.9", "often"),
        Statement("2", "cross, least a1", "exp", "1001/1000", "other", "0.5", "rarely in size"),
    ),
    (
        (
            Statement("1", "cross", "exp", "3", "other", "0.9", "often"),
            typographical(
                slip="j_3 for j_2",
                shown_by="Part 1 in rows other than j_2",
                printed=r"Part 1: if $j_0 = j_3$. Part 2: if $j_0 \ne j_3$. (Lemmas F.8, F.12, F.16 print $j_3$ as "
                "well.)",
                right=r"$j_0 = j_2$ and $j_0 \ne j_2$.",
                why="$j_2$ is the special query; row $j_3$ is like all others unless $j_3 = j_2$, and almost never "
                "exceeds 0.9.",
            ),
        ),
        (
            Statement("1", "cross", "exp", "3", "special", "0.9", "a tenth"),
            typographical(
                shown_by="a probability of just 1/10",
                printed=r"Part 1: $\Pr[\ldots] = 1/10$.",
                right="The probability is at least $1/10$.",
                why=r"The probability is $1/4$, as the proof says. (Lemmas F.4, F.8, F.12, F.16 print $=$ for $\ge$ "
                "throughout.)",
            ),
        ),
    ),
    home=__name__,
)
