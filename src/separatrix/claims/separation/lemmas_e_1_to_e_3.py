"""Lemmas E.1, E.2 and E.3: softmax self-attention with QK^T = I on D1, its entries, and a row with random signs.

b and c are Pythagorean fractions, so that b^2 + c^2 = 1 holds exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from separatrix.claims.ledger import Erratum, Rank, typographical
from separatrix.claims.separation.entry_lemmas import EntrySlip, Lemma, entry_lemma, outcome, register
from separatrix.claims.separation.row_lemmas import AS_N_GROWS, LARGE_B, NARROW, WIDE, Statement, row_lemma
from separatrix.claims.separation.section_d_ones import HALF, one_for_b, places
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.statements import Line, Reading, at

_CLASSES = "own other"

SETTINGS = (
    (12, 6, "0.05", "1", "11/61", "60/61"),
    (20, 12, "0.01", "1.2", "3/5", "4/5"),
    (6, 8, "0.09", "3", "11/61", "60/61"),
    (30, 5, "0.09", "1.1", "4/5", "3/5"),
    (7, 3, "0.02", "1.5", "13/85", "84/85"),
    # Corners: the least n, a_1 = 1, and b near 0 and near 1.
    (2, 3, "1/1000", "1", "39/761", "760/761"),
    (2, 4, "99/1000", "1", "760/761", "39/761"),
    (4, 4, "99/1000", "10", "39/761", "760/761"),
    (20, 4, "1/1000", "1", "39/761", "760/761"),
    # Random settings within the ranges.
    (15, 7, "0.043", "1.87", "20/29", "21/29"),
)
"""Settings (n, d, a_0, a_1, b, c) with b^2 + c^2 = 1 and a_1 >= 1; some have b < 0.2, as Theorem E.4 requires."""


def _bound_of_a_row(part: str, row: bool) -> tuple[Line, ...]:
    """u in [n^(c^2), n^(b^2 + c^2)] away from (j_3, j_3)."""
    where = at(row=True, key=False) if row else at(row=False)
    return (
        Line(f"{part}, from below", "u", where, ">=", lambda v: {v.c**2: 1}),
        Line(f"{part}, from above", "u", where, "<=", lambda v: {v.b**2 + v.c**2: 1}),
    )


def _number(part: str, row: bool, near: int, far: int) -> tuple[Line, ...]:
    """Lines that count the keys with u = n^(b^2 + c^2) and u = n^(c^2): t + near and n - t + far."""
    where = at(row=True, key=False) if row else at(row=False)
    return (
        Line(f"{part}, near", "u", where, "=", lambda v: {v.b**2 + v.c**2: 1}, count=lambda v: v.t + near),
        Line(f"{part}, far", "u", where, "=", lambda v: {v.c**2: 1}, count=lambda v: v.n - v.t + far),
    )


def _reading(*lines: Line, weights: Any = "identity") -> Reading:
    return Reading(1, weights, "exp", lines)


_E2_FIRST = Line("4", "c", at(row=False, column="first"), "<=", lambda v: {v.b**2 - 1: v.a1})

_E2_SPECIAL = Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: v.a1 / 2})


@experiment(version=2, name="separation.identity_entries")
def entries(lemma: str, n: int, d: int, a0: str, a1: str, b: str, c: str, seed: int) -> dict[str, Any]:
    """Compare a lemma of Section E with every entry. The computation is deterministic."""
    return outcome(entry_lemma(lemma), places(n, d, a0, a1, b, c))


def cells(lemma: str) -> Iterator[Cell]:
    for n, d, a0, a1, b, c in SETTINGS:
        yield entries.cell(seed=0, lemma=lemma, n=n, d=d, a0=a0, a1=a1, b=b, c=c)


register(
    Lemma(
        "Lemma E.1",
        r"With $Q K^\top = I$ and $b^2 + c^2 = 1$, on $\mathcal{D}_1$, $u_{\text{exp}}$ is $n^{1 + a_1^2}$ at $(j_3, "
        r"j_3)$, $n^{b^2 + c^2}$ for keys of the row's class and $n^{c^2}$ for the others; $f_{\text{exp}}$ is at "
        "least $1/2$ at $(j_3, j_3)$, elsewhere at most $n^{b^2 - 1}$, and at most $1/n$ for keys of other classes "
        "if the row is not $j_3$.",
        _reading(
            Line("1a", "u", at(row=True, key=True), "=", lambda v: {1 + v.a1**2: 1}),
            *_bound_of_a_row("1b", True),
            *_number("1b", True, -1, 0),
            *_bound_of_a_row("2", False),
            *_number("2", False, 0, 0),
            Line("3a", "f", at(row=True, key=True), ">=", lambda v: {0: HALF}),
            Line("3b", "f", at(row=True, key=False), "<=", lambda v: {v.b**2 - 1: 1}),
            Line("4, near", "f", at(row=False, same_class=True), "<=", lambda v: {v.b**2 - 1: 1}),
            Line("4, far", "f", at(row=False, same_class=False), "<=", lambda v: {-1: 1}),
        ),
        (
            EntrySlip(
                _reading(Line("1a", "u", at(row=True, key=True), "=", lambda v: {(1 + v.a1) ** 2: 1})),
                Erratum(
                    rank=Rank.STATEMENT,
                    shown_by="the exponent of Part 1a",
                    printed=r"Part 1a: $u_{\text{exp}}(j_3, j_3) = n^{(1 + a_1)^2}$.",
                    right="$n^{a_1^2 + b^2 + c^2} = n^{1 + a_1^2}$.",
                    why=r"With $Q K^\top = I$ there are no products of different columns; the proof has the right "
                    "exponent.",
                ),
            ),
            EntrySlip(
                _reading(Line("hypotheses", "c", at(column="last"), "=", lambda v: {0: 1 - v.b})),
                Erratum(
                    rank=Rank.STATEMENT,
                    at="Lemma E.1, hypotheses",
                    slip="b + c = 1 and b^2 + c^2 = 1",
                    shown_by="b + c = 1 where b^2 + c^2 = 1",
                    printed=r"$b^2 + c^2 = 1$, and data from Definition D.1, which has $b + c = 1$ with $b, c \ge "
                    "0.1$.",
                    right="The two cannot hold together. We check the lemma with $b^2 + c^2 = 1$.",
                    why="Together the two equations give $b c = 0$.",
                ),
            ),
            EntrySlip(
                _reading(*_number("1b", True, 0, -1)),
                typographical(
                    at="Lemma E.1, proof of Part 1b",
                    shown_by="the numbers of keys in the proof of Part 1b",
                    printed="$t$ keys with $n^{b^2 + c^2}$ and $n - t - 1$ with $n^{c^2}$.",
                    right="$t - 1$ and $n - t$, as in the statement.",
                    why="$j_3$ is one of the $t$ rows of its class, and Part 1b is not about it.",
                ),
            ),
            EntrySlip(
                _reading(*_number("2", False, -1, 0)[:1]),
                Erratum(
                    rank=Rank.STATEMENT,
                    shown_by="the numbers of keys in Parts 2 and 4",
                    printed=r"Parts 2 and 4: for $j_0 \ne j_3$ there are $t - 1$ keys of the first kind and $n - t$ "
                    "of the second.",
                    right="There are $t$ and $n - t$.",
                    why="$j_0$ is in its own class, and $t - 1 + n - t$ leaves one key out.",
                ),
            ),
            EntrySlip(
                _reading(Line("4", "u", at(row=False), "<=", lambda v: {v.b**2 - 1: 1})),
                typographical(
                    shown_by="Part 4 for u_exp",
                    printed=r"Part 4: $u_{\text{exp}}(j_0, j_1)$ is at most $n^{b^2 - 1}$, or $1/n$.",
                    right=r"$f_{\text{exp}}(j_0, j_1)$.",
                    why=r"$u_{\text{exp}}$ is at least $n^{c^2} > 1$.",
                ),
            ),
            EntrySlip(
                _reading(
                    Line(
                        "3a", "u", at(row=True, key=False), "=", lambda v: {v.b**2 + v.c**2: 1}, count=lambda v: v.n - 1
                    )
                ),
                typographical(
                    at="Lemma E.1, proof of Part 3a",
                    shown_by="the sum of a row in the proof of Part 3a",
                    printed="The row sums to $n^{a_1^2 + b^2 + c^2} + (n - 1) n^{b^2 + c^2}$.",
                    right="The sum is at most that; it equals $n^{a_1^2 + b^2 + c^2} + (t - 1) n^{b^2 + c^2} + (n - "
                    "t) n^{c^2}$.",
                    why="Only $t - 1$ of the other keys are in $j_3$'s class.",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

register(
    Lemma(
        "Lemma E.2",
        r"With $Q K^\top = I$ and $a_1 \ge 1$, on $\mathcal{D}_1$, all in units of $\sqrt{\log n}$: in row $j_3$, "
        r"$c_{\text{exp}}$ is at least $a_1 / 2$ in the first column, at least $b / 2$ in the column of $j_3$'s class, "
        "and at most $t n^{b^2 - 1} b$ in the columns of other classes. In other rows it is at most $n^{b^2 - 1} a_1$ "
        "in the first column and at most $t n^{b^2 - 1} b$ in the columns of classes. In the last column it is $c$.",
        _reading(
            _E2_SPECIAL,
            Line("2, j_3's class", "c", at(row=True, column="own"), ">=", lambda v: {0: v.b / 2}),
            Line("2, others", "c", at(row=True, column="other"), "<=", lambda v: {v.b**2 - 1: v.t * v.b}),
            Line("3", "c", at(row=True, column="last"), "=", lambda v: {0: v.c}),
            _E2_FIRST,
            Line("5", "c", at(row=False, column=_CLASSES), "<=", lambda v: {v.b**2 - 1: v.t * v.b}),
            Line("6", "c", at(row=False, column="last"), "=", lambda v: {0: v.c}),
        ),
        (
            EntrySlip(
                _reading(_E2_FIRST, weights="ones"),
                typographical(
                    shown_by="the lemma with QK^T = 1",
                    printed=r"$Q K^\top = \mathbf{1}_{d \times d}$.",
                    right=r"$Q K^\top = I_d$.",
                    why=r"Section E is about $I_d$; with $\mathbf{1}_{d \times d}$ Part 4 is false.",
                ),
            ),
            EntrySlip(
                _reading(_E2_SPECIAL),
                Erratum(
                    rank=Rank.STATEMENT,
                    shown_by="Part 1 at a_1 = 0.7",
                    printed=r"The data are those of Definition D.1, which allows $a_1 \ge 0.7$.",
                    slip="a_1 >= 1 in Section E",
                    right=r"With $a_1 \ge 1$, as in Lemma E.1, the lemma holds at every $n$; for large $n$ it is "
                    "enough that $a_1^2 + b^2 > 1$ and $t = o(n^{a_1^2})$.",
                    why="The weight of $j_3$ in its row is $n^{a_1^2 + b^2}$ against $n - t + (t - 1) n^{b^2}$. At "
                    "$a_1 = 0.7$ and a small $b$ Part 1 fails.",
                ),
                Fraction(7, 10),
            ),
            one_for_b("identity"),
            EntrySlip(
                _reading(Line("5", "c", at(row=False, column=_CLASSES), "=", lambda v: {-1: v.t * v.b})),
                Erratum(
                    rank=Rank.PROOF,
                    at="Lemma E.2, proof of Part 5",
                    shown_by="the equality in the proof of Part 5",
                    printed=r"$\langle f_{\text{exp}}, (A_3 V)_{i_0} \rangle = t b \sqrt{\log n} / n$.",
                    right=r"At most $t b \sqrt{\log n} / n^{1 - b^2}$.",
                    why=r"$f_{\text{exp}}$ is $n^{b^2}$ times larger on the row's own class than on the others.",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

row_lemma(
    "Lemma E.3",
    r"With $Q K^\top = I$, $a_1^2 + b^2 > 1$ and $d = \omega(n^{2 b^2 + 0.02})$, on $\mathcal{D}_1$, "
    r"$\langle c_{\text{exp}}, \sigma \rangle \ge (c + 0.1) \sqrt{\log n}$ with probability at least $1/10$ in row "
    r"$j_3$, and with probability at most $\delta / \text{poly}(n)$ in the other rows.",
    WIDE,
    (
        Statement("1", "identity", "exp", "1.2", "special", "0.1", "often"),
        Statement("2", "identity", "exp", "1.2", "own class", "0.1", "rarely"),
        Statement("2", "identity", "exp", "1.2", "other class", "0.1", "rarely"),
        Statement("1", "identity, least a1", "exp", "1", "special", "0.1", "often", NARROW),
        Statement("2", "identity, least a1", "exp", "1", "own class", "0.1", "rarely", NARROW),
        Statement("1", "identity, large b", "exp", "1.2", "special", "0.1", "often", LARGE_B),
        Statement("2", "identity, large b", "exp", "1.2", "own class", "0.1", "rarely", LARGE_B),
        Statement("2", "identity, large b", "exp", "1.2", "other class", "0.1", "rarely", LARGE_B),
        Statement("2", "identity", "exp", "10", "other class", "0.1", "rarely"),
        # a_1^2 + b^2 is 1.116, although a_1 < 1.
        Statement("1", "identity, large b", "exp", "0.8", "special", "0.1", "often", LARGE_B),
    ),
    (
        (
            Statement("1", "identity", "exp", "0.7", "special", "0.1", "often"),
            Erratum(
                rank=Rank.STATEMENT,
                slip="a_1 >= 1 in Section E",
                shown_by="Part 1 at a_1 = 0.7",
                printed=r"The data are those of Definition D.1, which allows $a_1 \ge 0.7$.",
                right=r"The lemma needs $a_1^2 + b^2 > 1$, for which $a_1 \ge 1$, as in Lemma E.1, is enough.",
                why="The weight of $j_3$ in its row is $n^{a_1^2 + b^2}$ against about $n$. At $a_1 = 0.7$ and $b = "
                "11/61$ it vanishes, and row $j_3$ rarely reaches the threshold.",
            ),
        ),
    ),
    note="b = 11/61 and c = 60/61, so that b^2 + c^2 = 1 and b < 0.2, or b = 20/29 and c = 21/29. " + AS_N_GROWS,
    home=__name__,
)
