"""Section D: self-attention with QK^T = 1. The settings, and the lines and the experiment of all its lemmas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Literal

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import EntrySlip, entry_lemma, outcome
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.statements import Line, Reading, Values, at

HALF = Fraction(1, 2)

CLASSES = "own other"

SETTINGS = (
    (12, 6, "0.05", "0.7", "0.3", "0.7"),
    (20, 12, "0.01", "1.2", "0.2", "0.8"),
    (6, 8, "0.09", "3", "0.1", "0.9"),
    (30, 5, "0.09", "0.9", "0.5", "0.5"),
    (7, 3, "0.02", "1", "0.9", "0.1"),
    # Corners of a_0 in (0, 0.1), a_1 >= 0.7 and b in [0.1, 0.9], at the least possible n.
    (2, 3, "1/1000", "0.7", "0.1", "0.9"),
    (2, 4, "99/1000", "0.7", "0.9", "0.1"),
    (3, 3, "1/1000", "10", "0.9", "0.1"),
    (4, 4, "99/1000", "10", "0.1", "0.9"),
    (12, 4, "1/1000", "0.7", "0.9", "0.1"),
    # Random settings within the ranges.
    (15, 7, "0.043", "1.87", "0.62", "0.38"),
    (16, 4, "0.071", "0.79", "0.44", "0.56"),
)
"""Settings (n, d, a_0, a_1, b, c) of Definition D.1; the third has one row per class, the fifth has one class."""


def places(n: int, d: int, a0: str, a1: str, b: str, c: str) -> Iterator[Values]:
    """A setting with its special index first, in the middle and last."""
    for j3 in sorted({0, n // 2, n - 1}):
        yield Values(n, d, Fraction(a0), Fraction(a1), Fraction(b), Fraction(c), j3, j3)


def signal(data: int) -> Callable[[Values], Fraction]:
    return lambda v: v.a1 if data else v.a0


def weights_exp(data: int) -> tuple[Line, ...]:
    """Lemmas D.2 and D.6, Parts 1 and 2, and the parts of f that they share."""
    a = signal(data)
    return (
        Line("1a", "u", at(row=True, key=True), "=", lambda v: {(1 + a(v)) ** 2: 1}),
        Line("1b", "u", at(row=True, key=False), "=", lambda v: {1 + a(v): 1}),
        Line("2a", "u", at(row=False, key=True), "=", lambda v: {1 + a(v): 1}),
        Line("2b", "u", at(row=False, key=False), "=", lambda v: {1: 1}),
        Line("3b", "f", at(row=True, key=False), "<=", lambda v: {-1: 1}),
        Line("4a", "f", at(row=False, key=True), "<=", lambda v: {a(v) - 1: 1}),
        Line("4b", "f", at(row=False, key=False), "<=", lambda v: {-1: 1}),
    )


def weights_lin(data: int) -> tuple[Line, ...]:
    """Lemmas D.10 and D.14; u in units of log n."""
    a = signal(data)
    return (
        Line("1a", "u", at(row=True, key=True), "=", lambda v: {0: (1 + a(v)) ** 2}),
        Line("1b", "u", at(row=True, key=False), "=", lambda v: {0: 1 + a(v)}),
        Line("2a", "u", at(row=False, key=True), "=", lambda v: {0: 1 + a(v)}),
        Line("2b", "u", at(row=False, key=False), "=", lambda v: {0: 1}),
        Line("3a", "f", at(row=True, key=True), "<=", lambda v: {-1: 1 + a(v)}),
        Line("3b", "f", at(row=True, key=False), "<=", lambda v: {-1: 1}),
        Line("4a", "f", at(row=False, key=True), "<=", lambda v: {-1: 1 + a(v)}),
        Line("4b", "f", at(row=False, key=False), "<=", lambda v: {-1: 1}),
    )


def output_lin(data: int) -> tuple[Line, ...]:
    """Lemmas D.11 and D.15."""
    a = signal(data)
    lines = []
    for row, (first, classes, last) in ((True, "123"), (False, "456")):
        lines += [
            Line(first, "c", at(row=row, column="first"), "<=", lambda v: {-1: (1 + a(v)) * a(v)}),
            Line(classes, "c", at(row=row, column=CLASSES), "<=", lambda v: {-1: (1 + a(v)) * v.t * v.b}),
            Line(last, "c", at(row=row, column="last"), "=", lambda v: {0: v.c}),
        ]
    return tuple(lines)


def any_key(data: Literal[0, 1], network: Literal["exp", "lin"]) -> EntrySlip:
    return EntrySlip(
        Reading(data, "ones", network, (Line("4b", "f", at(row=False), "<=", lambda v: {-1: 1}),)),
        typographical(
            shown_by="Part 4b at every key",
            printed=r"Part 4b: for $j_0 \ne j_3$, $f \le 1/n$.",
            right=r"For $j_1 \ne j_3$.",
            why=r"Part 4 has $j_0 \ne j_3$ already; at the key $j_3$ the weight is above $1/n$ (Part 4a).",
        ),
    )


def not_circ(data: Literal[0, 1]) -> EntrySlip:
    """Lemmas D.10 and D.14, proof of Part 1a: the product of two rows is called a circ product."""
    a = signal(data)
    entrywise = Line("1a", "u", at(row=True, key=True), "=", lambda v: {0: a(v) ** 2 + v.b**2 + v.c**2})
    return EntrySlip(
        Reading(data, "ones", "lin", (entrywise,)),
        typographical(
            slip="circ product",
            shown_by="Part 1a by the circ product",
            printed=f"Proof of Part 1a of Lemma {'D.10' if data else 'D.14'}: by computing the circ product of two "
            "rows.",
            right="By computing their tensor product, as in Lemma D.2.",
            why=r"The entries of the circ product $u \circ v$ sum to $a^2 + b^2 + c^2$ (times $\log n$), which is what "
            r"$Q K^\top = I_d$ gives; the display that follows, $(a + b + c)^2$, is right.",
        ),
    )


def one_for_b(weights: Literal["ones", "identity"]) -> EntrySlip:
    """Lemmas D.3 and E.2, proof of Part 2: the j_3 coordinate of the column of j_3's class is stated to be 1."""
    column = Line("2", "c", at(row=True, column="own"), ">=", lambda v: {0: HALF})
    return EntrySlip(
        Reading(1, weights, "exp", (column,)),
        typographical(
            slip="a coordinate is 1",
            shown_by="Part 2 with 1 for b",
            printed=f"Proof of Part 2 of Lemma {'D.3' if weights == 'ones' else 'E.2'}: one column "
            "$(A_3 V)_{i_0}$ has 1 in coordinate $j_3$.",
            right=r"It has $b \sqrt{\log n}$ there.",
            why=r"Definition D.1 has the identities times $b \sqrt{\log n}$. With 1 for $b$ the entry of "
            r"$c_{\text{exp}}$ would be at least $1/2$ (times $\sqrt{\log n}$), and it is at most $b$.",
        ),
    )


@experiment(version=2, name="separation.ones_entries")
def entries(lemma: str, n: int, d: int, a0: str, a1: str, b: str, c: str, seed: int) -> dict[str, Any]:
    """Compare a lemma of Section D with every entry. The computation is deterministic."""
    return outcome(entry_lemma(lemma), places(n, d, a0, a1, b, c))


def cells(lemma: str) -> Iterator[Cell]:
    """The cells of a lemma, one for every setting."""
    for n, d, a0, a1, b, c in SETTINGS:
        yield entries.cell(seed=0, lemma=lemma, n=n, d=d, a0=a0, a1=a1, b=b, c=c)
