r"""The few different rows of an attention matrix on the paper's data, with exact weights.

The keys fall into g classes, by their column of the identity; class k has size_k of the n rows (all equal to t when g
divides n, else t or t + 1). One key, j3, is special, and its class is called *own*. For a query there are then at most
four kinds of keys, and it gives all keys of one kind the same weight:

    special   the key j3
    own       the other keys of j3's class
    query     the keys of the query's class, when that class is not own
    rest      all others

Weights are only needed up to a common factor, chosen so that `rest` is an integer; the others are integers times powers
of n. With QK^T = 1 the class of a query does not matter. With QK^T = I there are three kinds of queries (j3, the rest
of its class, other classes), and in cross-attention there are two (j2 and the others).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Literal

Weight = tuple[int, int]
"""The pair (q, i) stands for the weight q n^{e_i}, with e_i the network's i-th exponent; e_0 is always 0."""

Queries = Literal["special", "own class", "other class", "all but one", "all"]

_ZERO = Fraction(0)
_ONE: Weight = (1, 0)


@dataclass(frozen=True)
class Row:
    """A kind of query: which queries it includes, and the weights they give to the four kinds of keys."""

    queries: Queries
    special: Weight
    own: Weight
    query: Weight
    rest: int


@dataclass(frozen=True)
class Network:
    """F_exp or F_lin on one data set: its kinds of rows, and integers proportional to the values and to tau.

    Attributes:
        n: the number of tokens.
        a: the entry of row j3 of A_3 in the first column; the other rows have 0 there.
        b: the entry of every row of A_3 in the column of its class.
        c: the entry of every row of A_3 in the last column; 0 if there is no such column.
        tau: the threshold, in the unit of a, b and c if `logs` is 0.
        logs: 1 if `tau` is absolute while the unit of a, b and c is sqrt(log n), else 0.
        exponents: the exponents e_i that weights refer to.
        rows: the kinds of queries.
    """

    n: int
    a: int
    b: int
    c: int
    tau: int
    logs: int
    exponents: tuple[Fraction, ...]
    rows: tuple[Row, ...]


def self_attention_networks(
    n: int, a: Fraction, b: Fraction, c: Fraction, tau: Fraction, logs: int, weights: Literal["identity", "ones"]
) -> tuple[Network, Network]:
    """The networks (F_exp, F_lin) on an element of Definition D.1, for a, b, c >= 0 and b + c > 0.

    Args:
        n: the number of tokens.
        a: a0 or a1, in units of sqrt(log n).
        b: the factor of the stacked identities, in the same unit.
        c: the factor of the ones, in the same unit.
        tau: the threshold, in the same unit if `logs` is 0, absolute if it is 1.
        logs: 0 or 1, see `tau`.
        weights: whether Q K^T is the identity or the all-ones matrix.

    Example:
        >>> softmax, _ = self_attention_networks(8, *map(Fraction, ("1.2", "0.2", "0.8", "0.9")), 0, "ones")
        >>> [row.queries for row in softmax.rows], softmax.exponents  # n^{a (a + b + c)} and n^{a (b + c)}
        (['special', 'all but one'], (Fraction(0, 1), Fraction(66, 25), Fraction(6, 5)))
    """
    D = lcm(a.denominator, b.denominator, c.denominator, tau.denominator)
    A, B, C, T = (x.numerator * (D // x.denominator) for x in (a, b, c, tau))
    first, second = (1, 1), (1, 2)
    softmax: tuple[Row, ...]
    linear: tuple[Row, ...]
    if weights == "ones":
        exponents = (_ZERO, Fraction(A * (A + B + C), D * D), Fraction(A * (B + C), D * D))
        softmax = (Row("special", first, _ONE, _ONE, 1), Row("all but one", second, _ONE, _ONE, 1))
        linear = (_linear_row("all", A + B + C, B + C, B + C, B + C),)
    else:
        exponents = (_ZERO, Fraction(A * A + B * B, D * D), Fraction(B * B, D * D))
        softmax = (
            Row("special", first, second, _ONE, 1),
            Row("own class", second, second, _ONE, 1),
            Row("other class", _ONE, _ONE, second, 1),
        )
        near, far = B * B + C * C, C * C
        linear = (
            _linear_row("special", A * A + near, near, far, far),
            _linear_row("own class", near, near, far, far),
            _linear_row("other class", far, far, near, far),
        )
    return Network(n, A, B, C, T, logs, exponents, softmax), Network(n, A, B, C, T, logs, (_ZERO,), linear)


def cross_attention_networks(n: int, a: Fraction, tau: Fraction) -> tuple[Network, Network]:
    """The networks (F_exp, F_lin) on an element of Definition F.1, where QK^T = I_d and a >= 0.

    >>> softmax, linear = cross_attention_networks(200, Fraction(3), Fraction("0.9"))
    >>> [(row.queries, row.special, row.rest) for row in linear.rows], softmax.exponents
    ([('special', (4, 0), 1), ('all but one', (1, 0), 1)], (Fraction(0, 1), Fraction(3, 1)))
    """
    T, D = tau.numerator, tau.denominator
    all_but_one = _linear_row("all but one", 1, 1, 1, 1)
    scale = a.denominator
    softmax = (Row("special", (1, 1), _ONE, _ONE, 1), all_but_one)
    linear = (_linear_row("special", int((1 + a) * scale), scale, scale, scale), all_but_one)
    return Network(n, D, D, 0, T, 0, (_ZERO, a), softmax), Network(n, D, D, 0, T, 0, (_ZERO,), linear)


def _linear_row(queries: Queries, special: int, own: int, query: int, rest: int) -> Row:
    return Row(queries, (special, 0), (own, 0), (query, 0), rest)
