"""Lemmas D.2, D.3 and D.4: softmax self-attention with QK^T = 1 on D1, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.ledger import Erratum, Rank
from separatrix.claims.separation.entry_lemmas import EntrySlip, Lemma, register
from separatrix.claims.separation.row_lemmas import NARROW, Statement, row_lemma
from separatrix.claims.separation.section_d_ones import CLASSES, HALF, cells, one_for_b, weights_exp
from separatrix.separation.statements import Line, Reading, at

register(
    Lemma(
        "Lemma D.2",
        r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_1$, $u_{\text{exp}}$ is $n^{(1 + a_1)^2}$ at $(j_3, j_3)$, "
        r"$n^{1 + a_1}$ in the rest of that row and column, $n$ elsewhere; $f_{\text{exp}}$ is at least $1/2$ at "
        "$(j_3, j_3)$, at most $n^{a_1 - 1}$ in column $j_3$, at most $1/n$ elsewhere.",
        Reading(
            1, "ones", "exp", (*weights_exp(1), Line("3a", "f", at(row=True, key=True), ">=", lambda v: {0: HALF}))
        ),
        note="For a_1 >= 1 the bound n^(a_1 - 1) of Part 4a is at least 1, so that it is true but says nothing.",
    ),
    cells,
    __name__,
)

_D3_CLASSES = Line("5", "c", at(row=False, column=CLASSES), "<=", lambda v: {-1: v.t * v.b})

register(
    Lemma(
        "Lemma D.3",
        r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_1$, all in units of $\sqrt{\log n}$: in row $j_3$, "
        r"$c_{\text{exp}}$ is at least $a_1 / 2$ in the first column, at least $b / 2$ in the column of $j_3$'s "
        "class, and at most $(t/n) b$ in the columns of other classes. In other rows it is at most $n^{a_1 - 1} "
        "a_1$ in the first column and at most $(t/n) b$ in the columns of classes. In the last column it is $c$.",
        Reading(
            1,
            "ones",
            "exp",
            (
                Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: v.a1 / 2}),
                Line("2, j_3's class", "c", at(row=True, column="own"), ">=", lambda v: {0: v.b / 2}),
                Line("2, others", "c", at(row=True, column="other"), "<=", lambda v: {-1: v.t * v.b}),
                Line("3", "c", at(row=True, column="last"), "=", lambda v: {0: v.c}),
                Line("4", "c", at(row=False, column="first"), "<=", lambda v: {v.a1 - 1: v.a1}),
                Line(
                    "5, j_3's class",
                    "c",
                    at(row=False, column="own"),
                    "<=",
                    # At a_1 = 0 the two terms would coincide; D1 has a_1 >= 0.7.
                    lambda v: {v.a1 - 1: v.b, -1: (v.t - 1) * v.b},
                ),
                Line("5, others", "c", at(row=False, column="other"), "<=", lambda v: {-1: v.t * v.b}),
                Line("6", "c", at(row=False, column="last"), "=", lambda v: {0: v.c}),
            ),
        ),
        (
            EntrySlip(
                Reading(1, "ones", "exp", (_D3_CLASSES,)),
                Erratum(
                    rank=Rank.STATEMENT,
                    at="Lemma D.3, Part 5",
                    shown_by="Part 5 in every class's column",
                    printed=r"Part 5: for $j_0 \ne j_3$ and $i_0 \in \lbrace 2, \ldots, d - 1 \rbrace$, "
                    r"$c_{\text{exp}} \le (t/n) b \sqrt{\log n}$.",
                    right="The bound holds except in the column of $j_3$'s class, where the entry is at most "
                    r"$(n^{a_1 - 1} + (t - 1)/n) b \sqrt{\log n}$, as Lemma D.7 says for $\mathcal{D}_0$.",
                    why=r"The proof uses $f \le 1/n$ at the key $j_3$ too, where Part 4a of Lemma D.2 applies. The "
                    r"error passes on to the proof of Lemma D.4, Part 2, whose set $S = \lbrace 1, d \rbrace$ must "
                    r"contain that column as well. (The proof also prints $=$ for $\le$ in its first step.)",
                ),
            ),
            one_for_b("ones"),
        ),
    ),
    cells,
    __name__,
)

row_lemma(
    "Lemma D.4",
    r"With $Q K^\top = \mathbf{1}$ and $d = \omega(n^{0.02})$, on $\mathcal{D}_1$, $\langle c_{\text{exp}}, \sigma "
    r"\rangle \ge (c + 0.1) \sqrt{\log n}$ with probability at least $1/10$ in row $j_3$, and with probability at "
    r"most $\delta / \text{poly}(n)$ in the other rows.",
    NARROW,
    (
        Statement("1", "ones", "exp", "1.2", "special", "0.1", "often"),
        Statement("1", "ones", "exp", "0.7", "special", "0.1", "often"),
        Statement("2", "ones", "exp", "0.7", "other", "0.1", "rarely"),
        Statement("2", "ones", "exp", "0.9", "other", "0.1", "rarely"),
        Statement("1", "ones, least b", "exp", "0.7", "special", "0.1", "often"),
        Statement("1", "ones, least c", "exp", "10", "special", "0.1", "often"),
        Statement("2", "ones, least b", "exp", "0.7", "other", "0.1", "rarely"),
    ),
    (
        (
            Statement("2", "ones", "exp", "1.2", "other", "0.1", "rarely"),
            Erratum(
                rank=Rank.STATEMENT,
                at="Lemma D.4, Part 2",
                shown_by="Part 2 at a_1 = 1.2",
                printed=r"Part 2 is stated for every $a_1 \ge 0.7$ of Definition D.1, which includes the value $a_1 "
                "= 1.2$ of the experiments.",
                right="Part 2 holds for $a_1 < 1$.",
                why=r"For $a_1 \ge 1$ every row gives a fixed share of its weight to $j_3$ (Lemma D.3, Part 4, says "
                "nothing then), and fires as often as row $j_3$. This only makes the conclusion of Theorem D.5 "
                r"easier. (The proof prints $\lvert c_{j_0, S}, \sigma \rvert$ for $\lvert \langle c_{j_0, S}, \sigma "
                r"\rangle \rvert$.)",
            ),
        ),
    ),
    home=__name__,
)
