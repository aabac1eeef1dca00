"""The entries of u, f and c (Definitions C.1 and C.4) on the paper's data, exactly, and statements about all of them.

The scores are rational multiples of log n, so every entry is a quotient of sums of q n^e with rational q and e. A
relation "=", "<=" or ">=" between such sums is decided by `radicals.sign`, without rounding. c is in units of sqrt(log
n) in self-attention, u_lin in units of log n.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from separatrix.separation.radicals import sign

Terms = Mapping[Any, Fraction | int]
"""{e: q} is the sum of q n^e; e is a Fraction or an int (a Mapping of either would not accept a dict of one)."""
Sum = tuple[tuple[Fraction, Fraction], ...]
"""A sum of q n^e as a tuple of pairs (e, q), which is hashable."""
Row = Mapping[int, Fraction]
"""A sparse vector; columns are counted from 1."""


@dataclass(frozen=True)
class Values:
    """A setting with its special indices, counted from 0: j2 is the query and j3 the key; j2 = j3 in self-attention."""

    n: int
    d: int
    a0: Fraction
    a1: Fraction
    b: Fraction
    c: Fraction
    j2: int
    j3: int

    @property
    def t(self) -> Fraction:
        """The number of rows in a class, n / (d - 2)."""
        return Fraction(self.n, self.d - 2)

    @property
    def t_cross(self) -> Fraction:
        """The number of rows in a class in cross-attention, n / (d - 1)."""
        return Fraction(self.n, self.d - 1)


@dataclass(frozen=True)
class EntryPlace:
    """An entry: row j0, and key j1 (of u and f, from 0) or column i0 (of c, from 1); `own` is the column of j3's
    class."""

    j0: int
    j1: int
    i0: int
    values: Values
    own: int

    @property
    def column(self) -> str:
        """The kind of column i0: first, own (j3's class), another class's, or last (in self-attention)."""
        if self.i0 in (1, self.own):
            return "first" if self.i0 == 1 else "own"
        return "last" if self.i0 == self.values.d and self.values.c else "other"


def at(
    *,
    row: bool | None = None,
    key: bool | None = None,
    column: str = "",
    row_is_j3: bool | None = None,
    same_class: bool | None = None,
) -> Callable[[EntryPlace], bool]:
    """Select the places whose row is j2 (or is not), whose key is j3 (or is not), whose column is of one of these
    kinds.

    In self-attention `same_class` asks that key and row have (or do not have) the same class. None means no
    restriction.
    """

    def meant(place: EntryPlace) -> bool:
        v = place.values
        asked = ((row, place.j0 == v.j2), (key, place.j1 == v.j3), (row_is_j3, place.j0 == v.j3))
        if any(required is not None and required != actual for required, actual in asked):
            return False
        if same_class is not None and same_class != ((place.j0 - place.j1) % (v.d - 2) == 0):
            return False
        return not column or place.column in column.split()

    return meant


@dataclass(frozen=True)
class Line:
    """One part of a lemma: the places at which a quantity has a relation to a bound.

    With `count`, the line states, for each row that has such places, at how many of them the relation holds.
    """

    part: str
    quantity: Literal["u", "f", "c"]
    where: Callable[[EntryPlace], bool]
    relation: Literal["=", "<=", ">="]
    bound: Callable[[Values], Terms]
    count: Callable[[Values], Fraction | int] | None = None


@dataclass(frozen=True)
class Reading:
    """Some lines of a lemma, and their subject: D0 or D1, QK^T, softmax or linear attention.

    "cross" is Definition F.1 with QK^T = I; "cross, columns to d - 1" is that definition as printed, which leaves the
    last column empty.
    """

    data: Literal[0, 1]
    weights: Literal["ones", "identity", "cross", "cross, columns to d - 1"]
    network: Literal["exp", "lin"]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class LineTally:
    """The checks of one line of a statement: the number of comparisons, the number that contradict the line, and the
    largest ratio (the smallest one for >=).

    The ratio is None for a count, and for a line about no place, such as one about "the other classes" when there is
    only one class.
    """

    compared: int
    violations: int
    ratio: float | None


def evaluate(reading: Reading, values: Values) -> dict[str, LineTally]:
    """Check every line of a reading at every place."""
    queries, keys, places = _data(reading, values)
    rows: dict[tuple[tuple[int, Fraction], ...], Mapping[str, _Entries]] = {}
    for query in {tuple(sorted(query.items())) for query in queries}:
        rows[query] = _row(query, keys, values.d, reading.weights, reading.network)
    of_row = [rows[tuple(sorted(query.items()))] for query in queries]
    return {line.part: _tally(line, values, of_row, places) for line in reading.lines}


def _tally(
    line: Line, values: Values, of_row: Sequence[Mapping[str, _Entries]], places: Mapping[str, list[list[EntryPlace]]]
) -> LineTally:
    bound = _sum(line.bound(values))
    compared = violations = 0
    ratios: list[float] = []
    for row, at in zip(of_row, places["c" if line.quantity == "c" else "u"], strict=True):
        entries = row[line.quantity]
        here = Counter(which for which, place in zip(entries.which, at, strict=True) if line.where(place))
        holds = {k: _holds(values.n, *entries.different[k], line.relation, bound) for k in here}
        satisfied = sum(number for k, number in here.items() if holds[k])
        if line.count is None:
            compared += here.total()
            violations += here.total() - satisfied
            ratios += [_ratio(values.n, *entries.different[k], bound) for k in here]
        elif here:
            compared += 1
            violations += satisfied != line.count(values)
    return LineTally(compared, violations, (min if line.relation == ">=" else max)(ratios, default=None))


def _data(reading: Reading, values: Values) -> tuple[list[Row], list[Row], dict[str, list[list[EntryPlace]]]]:
    """The rows of A_1 and of A_2 = A_3, and the places of each row: those of u and f, and those of c."""
    a = values.a1 if reading.data else values.a0
    n, d = values.n, values.d
    cross = reading.weights.startswith("cross")
    g = d - 1 if cross else d - 2
    if cross:
        last = d if reading.weights == "cross" else d - 1
        ones = {i: Fraction(1) for i in range(2, last + 1)}
        queries: list[Row] = [{**ones, 1: a} if j == values.j2 else ones for j in range(n)]
        columns = [[2 + j % g] if 2 + j % g <= last else [] for j in range(n)]
        keys: list[Row] = [{i: Fraction(1) for i in columns[j] + [1] * (j == values.j3)} for j in range(n)]
    else:
        queries = keys = [{2 + j % g: values.b, d: values.c, **({1: a} if j == values.j3 else {})} for j in range(n)]
    own = 2 + values.j3 % g
    in_u = [[EntryPlace(j0, j1, 0, values, own) for j1 in range(n)] for j0 in range(n)]
    in_c = [[EntryPlace(j0, -1, i0, values, own) for i0 in range(1, d + 1)] for j0 in range(n)]
    return queries, keys, {"u": in_u, "c": in_c}


@dataclass(frozen=True)
class _Entries:
    """The distinct entries of a row as (numerator, denominator), and the index of each entry among them."""

    different: list[tuple[Sum, Sum]]
    which: list[int]

    @classmethod
    def of(cls, entries: Sequence[tuple[Sum, Sum]]) -> _Entries:
        number = {entry: k for k, entry in enumerate(dict.fromkeys(entries))}
        return cls(list(number), [number[entry] for entry in entries])


def _row(
    query: tuple[tuple[int, Fraction], ...], keys: Sequence[Row], d: int, weights: str, network: str
) -> dict[str, _Entries]:
    """u, f and c of one row."""
    if weights == "ones":
        scores = [sum(x for _, x in query) * sum(key.values()) for key in keys]
    else:
        scores = [sum((x * key.get(i, Fraction(0)) for i, x in query), Fraction(0)) for key in keys]
    u = [_sum({s: 1} if network == "exp" else {0: s}) for s in scores]
    alpha: dict[Fraction, Fraction] = defaultdict(Fraction)
    columns: dict[int, dict[Fraction, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for entry, key in zip(u, keys, strict=True):
        for e, q in entry:
            alpha[e] += q
            for i, x in key.items():
                columns[i][e] += q * x
    total, unit = _sum(alpha), _sum({0: 1})
    return {
        "u": _Entries.of([(x, unit) for x in u]),
        "f": _Entries.of([(x, total) for x in u]),
        "c": _Entries.of([(_sum(columns[i]), total) for i in range(1, d + 1)]),
    }


def _sum(terms: Terms) -> Sum:
    return tuple(sorted((Fraction(e), Fraction(q)) for e, q in terms.items() if q))


@lru_cache(maxsize=1 << 16)
def _holds(n: int, top: Sum, bottom: Sum, relation: str, bound: Sum) -> bool:
    """Whether top / bottom is in this relation to the bound; bottom > 0."""
    difference: dict[Fraction, Fraction] = defaultdict(Fraction)
    for e, q in top:
        difference[e] += q
    for e, q in bottom:
        for f, r in bound:
            difference[e + f] -= q * r
    D = math.lcm(*(q.denominator for q in difference.values()))
    comparison = sign(n, [(int(q * D), e, 0) for e, q in difference.items()])
    return comparison == 0 or comparison == {"=": 0, "<=": -1, ">=": 1}[relation]


@lru_cache(maxsize=1 << 16)
def _ratio(n: int, top: Sum, bottom: Sum, bound: Sum) -> float:
    x, y, z = (math.fsum(float(q) * math.pow(n, e) for e, q in terms) for terms in (top, bottom, bound))
    return x / (y * z)
