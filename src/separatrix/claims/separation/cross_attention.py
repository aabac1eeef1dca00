"""Section F: cross-attention, the lemmas on every entry (F.2, F.3, F.6, F.7, F.10, F.11, F.14, F.15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Literal

from separatrix.claims.ledger import Erratum
from separatrix.claims.separation.entry_lemmas import Lemma, Slip, outcome, register
from separatrix.claims.separation.statements import Line, Reading, Values, at
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

HALF, NONE = Fraction(1, 2), Fraction(0)
_CLASSES = "own other"

SETTINGS = (
    (12, 5, "0.05", "1.5"),
    (24, 7, "0.05", "3"),
    (20, 11, "0.01", "3"),
    (6, 7, "0.09", "1.1"),
    (8, 2, "0.02", "2"),
)
"""(n, d, a_0, a_1) within Definition F.1; the fourth has one row a class, the last has one class."""


def places(n: int, d: int, a0: str, a1: str) -> Iterator[Values]:
    """A setting with special indices apart, and the same."""
    for j2, j3 in ((0, n - 1), (n // 2, 0), (1, 1)):
        yield Values(n, d, Fraction(a0), Fraction(a1), NONE, NONE, j2, j3)


def _a(data: int) -> Callable[[Values], Fraction]:
    return lambda v: v.a1 if data else v.a0


def _weights_exp(data: int) -> tuple[Line, ...]:
    """Lemmas F.2 and F.6 without Part 3a, in which they differ."""
    a = _a(data)
    return (
        Line("1a", "u", at(row=True, key=True), "=", lambda v: {1 + a(v): 1}),
        Line("1b", "u", at(row=True, key=False), "=", lambda v: {1: 1}),
        Line("2a", "u", at(row=False, key=True), "=", lambda v: {1: 1}),
        Line("2b", "u", at(row=False, key=False), "=", lambda v: {1: 1}),
        Line("3b", "f", at(row=True, key=False), "<=", lambda v: {-1: 1}),
        Line("4", "f", at(row=False), "=", lambda v: {-1: 1}),
    )


def _weights_lin(data: int) -> tuple[Line, ...]:
    """Lemmas F.10 and F.14; u in units of log n."""
    a = _a(data)
    return (
        Line("1", "u", at(row=True, key=True), "=", lambda v: {0: 1 + a(v)}),
        Line("2, row j_2", "u", at(row=True, key=False), "=", lambda v: {0: 1}),
        Line("2, other rows", "u", at(row=False), "=", lambda v: {0: 1}),
        Line("3", "f", at(row=True, key=True), "<=", lambda v: {-1: 1 + a(v)}),
        Line("4", "f", at(row=True, key=False), "<=", lambda v: {-1: 1}),
        Line("5", "f", at(row=False), "=", lambda v: {-1: 1}),
    )


def _output(first: Callable[[Values], Any], classes: Callable[[Values], Any]) -> tuple[Line, ...]:
    """Lemmas F.7, F.11 and F.15: bounds for the row j_2, then 1/n and t/n for the others."""
    return (
        Line("1", "c", at(row=True, column="first"), "<=", first),
        Line("2", "c", at(row=True, column=_CLASSES), "<=", classes),
        Line("3", "c", at(row=False, column="first"), "<=", lambda v: {-1: 1}),
        Line("4", "c", at(row=False, column=_CLASSES), "<=", lambda v: {-1: v.t_cross}),
    )


_ROW_J2_EVEN = Line("4a", "f", at(row=True), "=", lambda v: {-1: 1})
_ROW_J2_EVEN_ERRATUM = Erratum(
    printed="Part 4a: for j_0 = j_2, f_exp = 1/n.",
    right="Part 4 is about j_0 != j_2: for j_1 = j_3 and for j_1 != j_3 it is 1/n.",
    why="In row j_2 the key j_3 has more than 1/n (Part 3a).",
)


def _index(data: Literal[0, 1], network: Literal["exp", "lin"]) -> Slip:
    first = Line("3", "c", at(row_is_j3=False, column="first"), "<=", lambda v: {-1: 1})
    return Slip(
        Reading(data, "cross", network, (first,)),
        Erratum(
            printed="The parts tell j_0 = j_3 from j_0 != j_3, and for j_0 != j_3 c is at most 1/n in the first "
            "column.",
            right="j_0 = j_2 and j_0 != j_2.",
            why="j_2 is the special query; the printed bound fails in row j_2 unless j_2 = j_3.",
        ),
    )


def _lin_output(data: Literal[0, 1]) -> Reading:
    a = _a(data)
    return Reading(data, "cross", "lin", _output(lambda v: {-1: 1 + a(v)}, lambda v: {-1: (1 + a(v)) * v.t_cross}))


LEMMAS = {
    lemma.where: lemma
    for lemma in (
        Lemma(
            "Lemma F.2",
            "Cross-attention, D1: u_exp is n^(1 + a_1) at (j_2, j_3) and n elsewhere; f_exp is at least 1/2 there, at "
            "most 1/n in the rest of row j_2, and 1/n in the other rows.",
            Reading(
                1,
                "cross",
                "exp",
                (*_weights_exp(1), Line("3a", "f", at(row=True, key=True), ">=", lambda v: {0: HALF})),
            ),
            (
                Slip(Reading(1, "cross", "exp", (_ROW_J2_EVEN,)), _ROW_J2_EVEN_ERRATUM),
                Slip(
                    Reading(1, "cross, columns to d - 1", "exp", _weights_exp(1)[1:4]),
                    Erratum(
                        printed="Definition F.1: the second column to d - 1 columns of A_1 are log n, and those of "
                        "A_2 the stacked I_{d-1}.",
                        right="The second to the d-th column.",
                        why="I_{d-1} has d - 1 columns. With one less, u_exp is 1 and not n for the class that has "
                        "none.",
                    ),
                ),
            ),
        ),
        Lemma(
            "Lemma F.3",
            "Cross-attention, D1: c_exp in row j_2 is at least 1/2 in the first column and in that of j_3's class, at "
            "most t/n in the others; in other rows at most 1/n and t/n.",
            Reading(
                1,
                "cross",
                "exp",
                (
                    Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: HALF}),
                    Line("2, j_3's class", "c", at(row=True, column="own"), ">=", lambda v: {0: HALF}),
                    Line("2, others", "c", at(row=True, column="other"), "<=", lambda v: {-1: v.t_cross}),
                    Line("3", "c", at(row=False, column="first"), "<=", lambda v: {-1: 1}),
                    Line("4", "c", at(row=False, column=_CLASSES), "<=", lambda v: {-1: v.t_cross}),
                ),
            ),
            note="The lemma has four parts, as there is no last column; Lemmas F.4 and F.8 cite Parts 1 to 6 of it.",
        ),
        Lemma(
            "Lemma F.6",
            "Cross-attention, D0: u_exp as in Lemma F.2 with a_0; f_exp is at most n^(a_0 - 1) at (j_2, j_3), at most "
            "1/n in the rest of row j_2, and 1/n in the other rows.",
            Reading(
                0,
                "cross",
                "exp",
                (*_weights_exp(0), Line("3a", "f", at(row=True, key=True), "<=", lambda v: {v.a0 - 1: 1})),
            ),
            (
                Slip(
                    Reading(1, "cross", "exp", _weights_exp(0)[:1]),
                    Erratum(
                        printed="{A_1, A_2, A_3} from D1.",
                        right="From D0.",
                        why="u_exp(j_2, j_3) = n^(1 + a_0) is false on D1.",
                    ),
                ),
                Slip(Reading(0, "cross", "exp", (_ROW_J2_EVEN,)), _ROW_J2_EVEN_ERRATUM),
            ),
            note="The proof of Part 3a ends with 1/(1 - a_0), which is above 1; what it needs, and has, is 1/n^(1 - "
            "a_0).",
        ),
        Lemma(
            "Lemma F.7",
            "Cross-attention, D0: c_exp in row j_2 is at most n^(a_0 - 1) in the first column and t n^(a_0 - 1) in the "
            "others; in other rows at most 1/n and t/n.",
            Reading(
                0,
                "cross",
                "exp",
                _output(lambda v: {v.a0 - 1: 1}, lambda v: {v.a0 - 1: v.t_cross}),
            ),
            (
                _index(0, "exp"),
                Slip(
                    Reading(
                        0,
                        "cross",
                        "exp",
                        (Line("2", "c", at(row=True, column=_CLASSES), "<=", lambda v: {v.a0 - 1: 1}),),
                    ),
                    Erratum(
                        printed="In the proof of Part 2: <f_exp, (A_3 V)_{i_0}> <= 1/n^(1 - a_0).",
                        right="At most t/n^(1 - a_0), as in the statement.",
                        why="(A_3 V)_{i_0} has t ones.",
                    ),
                ),
            ),
            note="Its parts are numbered 1, 2, 4, 5; the proof has 1 to 4.",
        ),
        Lemma(
            "Lemma F.10",
            "Cross-attention, D1: u_lin is (1 + a_1) log n at (j_2, j_3) and log n elsewhere; f_lin is at most (1 + "
            "a_1)/n there, at most 1/n in the rest of row j_2, and 1/n in the other rows.",
            Reading(1, "cross", "lin", _weights_lin(1)),
        ),
        Lemma(
            "Lemma F.11",
            "Cross-attention, D1: c_lin in row j_2 is at most (1 + a_1)/n in the first column and (1 + a_1) t/n in the "
            "others; in other rows at most 1/n and t/n.",
            _lin_output(1),
            (_index(1, "lin"),),
            note="It is printed for D0, where its bounds with a_1 are true and beside the point: the section, and "
            "Theorem F.13 which needs it, are about D1. Lemma F.12 is printed for D0 as well.",
        ),
        Lemma(
            "Lemma F.14",
            "Cross-attention, D0: u_lin and f_lin as in Lemma F.10 with a_0.",
            Reading(0, "cross", "lin", _weights_lin(0)),
            (
                Slip(
                    Reading(1, "cross", "lin", _weights_lin(0)[:1]),
                    Erratum(
                        printed="{A_1, A_2, A_3} from D1.",
                        right="From D0.",
                        why="u_lin(j_2, j_3) = (1 + a_0) log n is false on D1.",
                    ),
                ),
                Slip(
                    Reading(
                        0,
                        "cross",
                        "lin",
                        (Line("1", "u", at(row_is_j3=True, key=True), "=", lambda v: {0: 1 + v.a0}),),
                    ),
                    Erratum(
                        printed="Part 1: for j_0 = j_3 and j_1 = j_3, u_lin = (1 + a_0) log n.",
                        right="For j_0 = j_2 and j_1 = j_3.",
                        why="a_0 is in row j_2 of A_1; compare Lemma F.10.",
                    ),
                ),
                Slip(
                    Reading(
                        0,
                        "cross",
                        "lin",
                        (
                            Line("4", "f", at(row_is_j3=False, key=True), "<=", lambda v: {-1: 1}),
                            Line("5", "f", at(row_is_j3=False), "=", lambda v: {-1: 1}),
                        ),
                    ),
                    Erratum(
                        printed="Parts 4 and 5: for j_0 != j_3, f_lin <= 1/n at j_1 = j_3, and f_lin = 1/n.",
                        right="Part 4: j_0 = j_2, j_1 != j_3. Part 5: j_0 != j_2. (Part 3: j_0 = j_2, j_1 = j_3. Part "
                        "2: j_0 != j_2 or j_1 != j_3.)",
                        why="As in Lemma F.10; both fail in row j_2 unless j_2 = j_3.",
                    ),
                ),
            ),
        ),
        Lemma(
            "Lemma F.15",
            "Cross-attention, D0: c_lin as in Lemma F.11 with a_0; in the other rows it is t/n in a class's column.",
            Reading(
                0,
                "cross",
                "lin",
                (
                    *_lin_output(0).lines,
                    Line("4, equal", "c", at(row=False, column=_CLASSES), "=", lambda v: {-1: v.t_cross}),
                ),
            ),
            (
                Slip(
                    Reading(
                        0,
                        "cross",
                        "lin",
                        (Line("4, equal", "c", at(row=False, column=_CLASSES), "=", lambda v: {-1: v.t}),),
                    ),
                    Erratum(
                        printed="n = t (d - 2).",
                        right="n = t (d - 1).",
                        why="Definition F.1; a class has t = n/(d - 1) rows, so that c_lin is t/n = 1/(d - 1) there.",
                    ),
                ),
            ),
        ),
    )
}


CITED = Lemma(
    "Lemma F.8",
    "On D0, c_exp in row j_2 is at most n^(a_0 - 1) in the first column.",
    Reading(0, "cross", "exp", LEMMAS["Lemma F.7"].right.lines[:1]),
    (
        Slip(
            Reading(0, "cross", "exp", (Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: HALF}),)),
            Erratum(
                printed="The proof takes the entries of c_exp on D0 from Lemma F.3, Parts 1 to 6.",
                right="From Lemma F.7, which has four parts, as has Lemma F.3.",
                why="Lemma F.3 is about D1: its Part 1, c_exp >= 1/2 in row j_2, is false on D0.",
            ),
        ),
    ),
)
"""What the proof of Lemma F.8 cites; the lemma itself is about random signs."""


@experiment(version=1, name="separation.cross_entries")
def entries(lemma: str, n: int, d: int, a0: str, a1: str, seed: int) -> dict[str, Any]:
    """A lemma of Section F at every entry. Nothing is drawn."""
    return outcome(CITED if lemma == CITED.where else LEMMAS[lemma], places(n, d, a0, a1))


def cells(lemma: str) -> Iterator[Cell]:
    """A lemma in every setting."""
    for n, d, a0, a1 in SETTINGS:
        if lemma == "Lemma F.15" and d == 2:
            continue  # its printed n = t (d - 2) has no meaning there
        yield entries.cell(seed=0, lemma=lemma, n=n, d=d, a0=a0, a1=a1)


for _lemma in LEMMAS.values():
    register(_lemma, cells)
