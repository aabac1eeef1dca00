"""Section F: cross-attention. The settings, the lines that its lemmas share, and their experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Literal

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import EntrySlip, entry_lemma, outcome
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.statements import Line, Reading, Values, at

HALF, NONE = Fraction(1, 2), Fraction(0)

CLASSES = "own other"

SETTINGS = (
    (12, 5, "0.05", "1.5"),
    (20, 11, "0.01", "3"),
    (6, 7, "0.09", "1.1"),
    (8, 2, "0.02", "2"),
    # Corners of a_0 in (0, 0.1) and a_1 > 1, at the least possible n.
    (2, 2, "1/1000", "1001/1000"),
    (2, 3, "99/1000", "1001/1000"),
    (3, 2, "1/1000", "10"),
    (4, 3, "99/1000", "10"),
    (12, 3, "1/1000", "1001/1000"),
    # Random settings within the ranges.
    (15, 6, "0.043", "1.87"),
    (18, 4, "0.071", "1.29"),
)
"""Settings (n, d, a_0, a_1) of Definition F.1; the third has one row per class, the fourth has one class."""


def places(n: int, d: int, a0: str, a1: str) -> Iterator[Values]:
    """A setting with different special indices, and one with equal special indices."""
    for j2, j3 in ((0, n - 1), (n // 2, 0), (1, 1)):
        yield Values(n, d, Fraction(a0), Fraction(a1), NONE, NONE, j2, j3)


def signal(data: int) -> Callable[[Values], Fraction]:
    return lambda v: v.a1 if data else v.a0


def weights_exp(data: int) -> tuple[Line, ...]:
    """Lemmas F.2 and F.6 without Part 3a, in which they differ."""
    a = signal(data)
    return (
        Line("1a", "u", at(row=True, key=True), "=", lambda v: {1 + a(v): 1}),
        Line("1b", "u", at(row=True, key=False), "=", lambda v: {1: 1}),
        Line("2a", "u", at(row=False, key=True), "=", lambda v: {1: 1}),
        Line("2b", "u", at(row=False, key=False), "=", lambda v: {1: 1}),
        Line("3b", "f", at(row=True, key=False), "<=", lambda v: {-1: 1}),
        Line("4", "f", at(row=False), "=", lambda v: {-1: 1}),
    )


def weights_lin(data: int) -> tuple[Line, ...]:
    """Lemmas F.10 and F.14; u in units of log n."""
    a = signal(data)
    return (
        Line("1", "u", at(row=True, key=True), "=", lambda v: {0: 1 + a(v)}),
        Line("2, row j_2", "u", at(row=True, key=False), "=", lambda v: {0: 1}),
        Line("2, other rows", "u", at(row=False), "=", lambda v: {0: 1}),
        Line("3", "f", at(row=True, key=True), "<=", lambda v: {-1: 1 + a(v)}),
        Line("4", "f", at(row=True, key=False), "<=", lambda v: {-1: 1}),
        Line("5", "f", at(row=False), "=", lambda v: {-1: 1}),
    )


def output(first: Callable[[Values], Any], classes: Callable[[Values], Any]) -> tuple[Line, ...]:
    """Lemmas F.7, F.11 and F.15: bounds for the row j_2, then 1/n and t/n for the others."""
    return (
        Line("1", "c", at(row=True, column="first"), "<=", first),
        Line("2", "c", at(row=True, column=CLASSES), "<=", classes),
        Line("3", "c", at(row=False, column="first"), "<=", lambda v: {-1: 1}),
        Line("4", "c", at(row=False, column=CLASSES), "<=", lambda v: {-1: v.t_cross}),
    )


ROW_J2_EVEN = Line("4a", "f", at(row=True), "=", lambda v: {-1: 1})

ROW_J2_EVEN_ERRATUM = typographical(
    shown_by="Part 4a in row j_2",
    printed=r"Part 4a: for $j_0 = j_2$, $f_{\text{exp}} = 1/n$.",
    right=r"Part 4 is about $j_0 \ne j_2$: both for $j_1 = j_3$ and for $j_1 \ne j_3$ the weight is $1/n$.",
    why="In row $j_2$ the key $j_3$ has more than $1/n$ (Part 3a).",
)


def wrong_index(data: Literal[0, 1], network: Literal["exp", "lin"]) -> EntrySlip:
    first = Line("3", "c", at(row_is_j3=False, column="first"), "<=", lambda v: {-1: 1})
    return EntrySlip(
        Reading(data, "cross", network, (first,)),
        typographical(
            slip="j_3 for j_2",
            shown_by="Part 3 in rows other than j_3",
            printed=r"The parts distinguish $j_0 = j_3$ from $j_0 \ne j_3$, and for $j_0 \ne j_3$ $c$ is at most "
            "$1/n$ in the first column.",
            right=r"$j_0 = j_2$ and $j_0 \ne j_2$.",
            why="$j_2$ is the special query; the printed bound fails in row $j_2$ unless $j_2 = j_3$.",
        ),
    )


def lin_output(data: Literal[0, 1]) -> Reading:
    a = signal(data)
    return Reading(data, "cross", "lin", output(lambda v: {-1: 1 + a(v)}, lambda v: {-1: (1 + a(v)) * v.t_cross}))


@experiment(version=2, name="separation.cross_entries")
def entries(lemma: str, n: int, d: int, a0: str, a1: str, seed: int) -> dict[str, Any]:
    """Compare a lemma of Section F with every entry. The computation is deterministic."""
    return outcome(entry_lemma(lemma), places(n, d, a0, a1))


def cells(lemma: str) -> Iterator[Cell]:
    """The cells of a lemma, one for every setting."""
    for n, d, a0, a1 in SETTINGS:
        if lemma == "Lemma F.15" and d == 2:
            continue  # at d = 2 no t satisfies the printed n = t (d - 2)
        yield entries.cell(seed=0, lemma=lemma, n=n, d=d, a0=a0, a1=a1)
