"""Section D: self-attention with QK^T = 1, the lemmas on every entry (D.2, D.3, D.6, D.7, D.10, D.11, D.14, D.15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Literal

from separatrix.claims.ledger import Erratum
from separatrix.claims.separation.entry_lemmas import Lemma, Slip, outcome, register
from separatrix.claims.separation.statements import Line, Reading, Values, at
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

HALF = Fraction(1, 2)
_CLASSES = "own other"

SETTINGS = (
    (12, 6, "0.05", "0.7", "0.3", "0.7"),
    (24, 8, "0.05", "1.2", "0.3", "0.7"),
    (20, 12, "0.01", "1.2", "0.2", "0.8"),
    (6, 8, "0.09", "3", "0.1", "0.9"),
    (30, 5, "0.09", "0.9", "0.5", "0.5"),
    (7, 3, "0.02", "1", "0.9", "0.1"),
)
"""(n, d, a_0, a_1, b, c), within Definition D.1; the fourth has one row a class, the last has one class."""


def places(n: int, d: int, a0: str, a1: str, b: str, c: str) -> Iterator[Values]:
    """A setting with its special index first, in the middle and last."""
    for j3 in sorted({0, n // 2, n - 1}):
        yield Values(n, d, Fraction(a0), Fraction(a1), Fraction(b), Fraction(c), j3, j3)


def _a(data: int) -> Callable[[Values], Fraction]:
    return lambda v: v.a1 if data else v.a0


def _weights_exp(data: int) -> tuple[Line, ...]:
    """Lemmas D.2 and D.6, Parts 1 and 2, and the parts of f that they share."""
    a = _a(data)
    return (
        Line("1a", "u", at(row=True, key=True), "=", lambda v: {(1 + a(v)) ** 2: 1}),
        Line("1b", "u", at(row=True, key=False), "=", lambda v: {1 + a(v): 1}),
        Line("2a", "u", at(row=False, key=True), "=", lambda v: {1 + a(v): 1}),
        Line("2b", "u", at(row=False, key=False), "=", lambda v: {1: 1}),
        Line("3b", "f", at(row=True, key=False), "<=", lambda v: {-1: 1}),
        Line("4a", "f", at(row=False, key=True), "<=", lambda v: {a(v) - 1: 1}),
        Line("4b", "f", at(row=False, key=False), "<=", lambda v: {-1: 1}),
    )


def _weights_lin(data: int) -> tuple[Line, ...]:
    """Lemmas D.10 and D.14; u in units of log n."""
    a = _a(data)
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


def _output_lin(data: int) -> tuple[Line, ...]:
    """Lemmas D.11 and D.15."""
    a = _a(data)
    lines = []
    for row, (first, classes, last) in ((True, "123"), (False, "456")):
        lines += [
            Line(first, "c", at(row=row, column="first"), "<=", lambda v: {-1: (1 + a(v)) * a(v)}),
            Line(classes, "c", at(row=row, column=_CLASSES), "<=", lambda v: {-1: (1 + a(v)) * v.t * v.b}),
            Line(last, "c", at(row=row, column="last"), "=", lambda v: {0: v.c}),
        ]
    return tuple(lines)


def _any_key(data: Literal[0, 1], network: Literal["exp", "lin"]) -> Slip:
    return Slip(
        Reading(data, "ones", network, (Line("4b", "f", at(row=False), "<=", lambda v: {-1: 1}),)),
        Erratum(
            printed="Part 4b: for j_0 != j_3, f <= 1/n.",
            right="For j_1 != j_3.",
            why="Part 4 has j_0 != j_3 already; at the key j_3 the weight is above 1/n (Part 4a).",
        ),
    )


_D3_CLASSES = Line("5", "c", at(row=False, column=_CLASSES), "<=", lambda v: {-1: v.t * v.b})
_PRINTED_A0 = tuple(line for line in _weights_exp(0) if line.part in ("1a", "1b", "2a"))

LEMMAS = {
    lemma.where: lemma
    for lemma in (
        Lemma(
            "Lemma D.2",
            "QK^T = 1, D1: u_exp is n^((1 + a_1)^2) at (j_3, j_3), n^(1 + a_1) in the rest of that row and column, n "
            "elsewhere; f_exp is at least 1/2 at (j_3, j_3), at most n^(a_1 - 1) in column j_3, at most 1/n elsewhere.",
            Reading(
                1,
                "ones",
                "exp",
                (*_weights_exp(1), Line("3a", "f", at(row=True, key=True), ">=", lambda v: {0: HALF})),
            ),
            note="For a_1 >= 1 the bound n^(a_1 - 1) of Part 4a is at least 1: true, and empty.",
        ),
        Lemma(
            "Lemma D.3",
            "QK^T = 1, D1: c_exp in row j_3 is at least a_1/2 in the first column and b/2 in that of j_3's class, at "
            "most (t/n) b in the other classes; in other rows at most n^(a_1 - 1) a_1 and (t/n) b; c in the last "
            "column (all times sqrt(log n)).",
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
                        # At a_1 = 0 the two terms would fall together; D1 has a_1 >= 0.7.
                        lambda v: {v.a1 - 1: v.b, -1: (v.t - 1) * v.b},
                    ),
                    Line("5, others", "c", at(row=False, column="other"), "<=", lambda v: {-1: v.t * v.b}),
                    Line("6", "c", at(row=False, column="last"), "=", lambda v: {0: v.c}),
                ),
            ),
            (
                Slip(
                    Reading(1, "ones", "exp", (_D3_CLASSES,)),
                    Erratum(
                        printed="Part 5: for j_0 != j_3 and i_0 in {2, ..., d - 1}, c_exp <= (t/n) b sqrt(log n).",
                        right="Except in the column of j_3's class, where it is at most (n^(a_1 - 1) + (t - 1)/n) b "
                        "sqrt(log n), as Lemma D.7 says for D0.",
                        why="The proof uses f <= 1/n at the key j_3 too, where Part 4a of Lemma D.2 applies. The proof "
                        "of Lemma D.4, Part 2, inherits it: its S = {1, d} must have that column as well.",
                    ),
                ),
            ),
        ),
        Lemma(
            "Lemma D.6",
            "QK^T = 1, D0: u_exp as in Lemma D.2 with a_0; f_exp is at most n^(2 a_0 - 1) at (j_3, j_3), n^(a_0 - 1) "
            "in the rest of that column, 1/n elsewhere.",
            Reading(
                0,
                "ones",
                "exp",
                (*_weights_exp(0), Line("3a", "f", at(row=True, key=True), "<=", lambda v: {2 * v.a0 - 1: 1})),
            ),
            (
                Slip(
                    Reading(1, "ones", "exp", _PRINTED_A0),
                    Erratum(
                        printed="{A_1, A_2, A_3} from D1.",
                        right="From D0.",
                        why="u_exp(j_3, j_3) = n^((1 + a_0)^2) is false on D1, where it is n^((1 + a_1)^2).",
                    ),
                ),
                _any_key(0, "exp"),
            ),
        ),
        Lemma(
            "Lemma D.7",
            "QK^T = 1, D0: in row j_3, c_exp is at most n^(2 a_0 - 1) a_0 in the first column, (n^(2 a_0 - 1) + "
            "(t - 1)/n) b in that of j_3's class, (t/n) b in the others; in other rows the same with a_0 for 2 a_0; c "
            "in the last.",
            Reading(
                0,
                "ones",
                "exp",
                (
                    Line("1", "c", at(row=True, column="first"), "<=", lambda v: {2 * v.a0 - 1: v.a0}),
                    Line("2", "c", at(row=True, column=_CLASSES), "<=", lambda v: {2 * v.a0 - 1: v.t * v.b}),
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
                    Line("5", "c", at(row=False, column=_CLASSES), "<=", lambda v: {v.a0 - 1: v.t * v.b}),
                    Line(
                        "5, j_3's class",
                        "c",
                        at(row=False, column="own"),
                        "<=",
                        lambda v: {v.a0 - 1: v.b, -1: (v.t - 1) * v.b},
                    ),
                    Line("5, others", "c", at(row=False, column="other"), "<=", lambda v: {-1: v.t * v.b}),
                    Line("6", "c", at(row=False, column="last"), "=", lambda v: {0: v.c}),
                ),
            ),
            note="The sharper bounds for single columns make d = omega(n^0.02) enough in Theorem D.9, which asks for "
            "omega(n^(4 a_0 + 0.02)).",
        ),
        Lemma(
            "Lemma D.10",
            "QK^T = 1, D1: u_lin is (1 + a_1)^2 log n at (j_3, j_3), (1 + a_1) log n in the rest of that row and "
            "column, log n elsewhere; f_lin is at most (1 + a_1)/n in column j_3 and 1/n elsewhere.",
            Reading(1, "ones", "lin", _weights_lin(1)),
            (_any_key(1, "lin"),),
        ),
        Lemma(
            "Lemma D.11",
            "QK^T = 1, D1: c_lin is at most (1 + a_1) a_1/n in the first column and (1 + a_1) (t/n) b in a class's, "
            "and c in the last (all times sqrt(log n)).",
            Reading(1, "ones", "lin", _output_lin(1)),
        ),
        Lemma(
            "Lemma D.14",
            "QK^T = 1, D0: u_lin and f_lin as in Lemma D.10 with a_0.",
            Reading(0, "ones", "lin", _weights_lin(0)),
            (
                Slip(
                    Reading(0, "identity", "lin", _weights_lin(0)[:4]),
                    Erratum(
                        printed="QK^T = I_d.",
                        right="QK^T = 1_{d x d}.",
                        why="u_lin(j_3, j_3) = (1 + a_0)^2 log n is (a_0 + b + c)^2 log n; with I_d it is "
                        "(a_0^2 + b^2 + c^2) log n.",
                    ),
                ),
                _any_key(0, "lin"),
            ),
        ),
        Lemma(
            "Lemma D.15",
            "QK^T = 1, D0: c_lin as in Lemma D.11 with a_0.",
            Reading(0, "ones", "lin", _output_lin(0)),
            (
                Slip(
                    Reading(0, "ones", "exp", _output_lin(0)[1:2]),
                    Erratum(
                        printed="In the proof of Part 2: <f_exp, (A_3 V)_{i_0}> <= ((1 + a_0) t/n) b sqrt(log n).",
                        right="f_lin.",
                        why="For softmax weights the bound fails, for example at a_0 = 0.09 with one row a class.",
                    ),
                ),
            ),
        ),
    )
}


CITED = Lemma(
    "Lemma D.8",
    "On D0, c_exp in row j_3 is at most n^(2 a_0 - 1) a_0 in the first column.",
    Reading(0, "ones", "exp", LEMMAS["Lemma D.7"].right.lines[:1]),
    (
        Slip(
            Reading(0, "ones", "exp", (Line("1", "c", at(row=True, column="first"), ">=", lambda v: {0: v.a0 / 2}),)),
            Erratum(
                printed="The proof takes the entries of c_exp on D0 from Lemma D.3.",
                right="From Lemma D.7.",
                why="Lemma D.3 is about D1: its Part 1, c_exp >= (a/2) sqrt(log n) in row j_3, is false on D0.",
            ),
        ),
    ),
)
"""What the proof of Lemma D.8 cites; the lemma itself is about random signs."""


@experiment(version=1, name="separation.ones_entries")
def entries(lemma: str, n: int, d: int, a0: str, a1: str, b: str, c: str, seed: int) -> dict[str, Any]:
    """A lemma of Section D at every entry. Nothing is drawn."""
    return outcome(CITED if lemma == CITED.where else LEMMAS[lemma], places(n, d, a0, a1, b, c))


def cells(lemma: str) -> Iterator[Cell]:
    """A lemma in every setting."""
    for n, d, a0, a1, b, c in SETTINGS:
        yield entries.cell(seed=0, lemma=lemma, n=n, d=d, a0=a0, a1=a1, b=b, c=c)


for _lemma in LEMMAS.values():
    register(_lemma, cells)
