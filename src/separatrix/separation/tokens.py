r"""The different tokens of an element of D0 or D1, as exact numbers, and how often each occurs.

The n rows of Definitions D.1 and F.1 have few different values: the special key j3, and one value for each class of the
stack of identities. Cross-attention also has two kinds of queries, j2 and the others. All are stored as fractions, in
units of a power of L = sqrt(log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from separatrix.errors import ArgumentError
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.self_attention import SelfAttention

AttentionSetting = SelfAttention | CrossAttention
Token = tuple[Fraction, ...]


@dataclass(frozen=True)
class Tokens:
    """The different tokens of one element of D0 or D1.

    Attributes:
        queries: the different rows of A_1 Q K^T, in units of L^query_unit.
        keys: the different rows of A_2, which are the values too, in units of L^key_unit.
        multiplicity: how many of the n keys are equal to each of `keys`.
        query_unit: the power of L in the unit of the queries.
        key_unit: the power of L in the unit of the keys.
    """

    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    multiplicity: tuple[int, ...]
    query_unit: int
    key_unit: int


def class_sizes(setting: AttentionSetting) -> tuple[int, ...]:
    """The number of the n rows in each of the g classes: n / g, rounded down or up where g does not divide n.

    >>> class_sizes(CrossAttention(8, 4, 1, a0=0, a1=2, strict=False))
    (3, 3, 2)
    """
    g = setting.d - (2 if isinstance(setting, SelfAttention) else 1)
    t, larger = divmod(setting.n, g)
    return tuple(t + (k < larger) for k in range(g))


def threshold(setting: AttentionSetting) -> tuple[Fraction, int]:
    """The numbers (q, p) with tau = q L^p.

    >>> threshold(SelfAttention(8, 4, 1, a0=0.05, a1=1, b=0.2, c=0.8))
    (Fraction(9, 10), 1)
    """
    values = setting.values()
    return (values["tau"], 0) if "tau" in values else (values["c"] + Fraction(1, 10), 1)


def tokens(setting: AttentionSetting, which: Literal[0, 1], special: int) -> Tokens:
    """The different tokens of an element of D0 or D1; the special key j3 comes first.

    Args:
        setting: the setting; its weights must be "identity" or "ones".
        which: 0 for D0, 1 for D1.
        special: the class of j3, counted from 0.

    Example:
        >>> setting = CrossAttention(4, 3, 1, a0=0, a1=2, strict=False)
        >>> row_tokens = tokens(setting, 1, special=1)
        >>> [list(map(int, query)) for query in row_tokens.queries], [list(map(int, key)) for key in row_tokens.keys]
        ([[2, 1, 1], [0, 1, 1]], [[1, 0, 1], [0, 1, 0], [0, 0, 1]])
        >>> row_tokens.multiplicity
        (1, 2, 1)
    """
    values, sizes = setting.values(), class_sizes(setting)
    a, g, zero, one = values[f"a{which}"], len(sizes), Fraction(0), Fraction(1)
    multiplicity = [1, *sizes]
    multiplicity[1 + special] -= 1
    present = [j for j in range(g + 1) if multiplicity[j]]
    if isinstance(setting, CrossAttention):
        ones = (one,) * g
        keys = [(one if j == 0 else zero, *_unit(g, special if j == 0 else j - 1, one)) for j in present]
        return Tokens(((a, *ones), (zero, *ones)), tuple(keys), tuple(multiplicity[j] for j in present), 2, 0)
    b, c = values["b"], values["c"]
    if not isinstance(setting.weights, str):
        raise ArgumentError("setting", expected='weights "identity" or "ones"', got="a matrix of other weights")
    if min(a, b, c) < 0 or b + c == 0:
        raise ArgumentError("setting", expected="a0, a1, b, c >= 0 and b + c > 0", got=setting)
    rows = [(a if j == 0 else zero, *_unit(g, special if j == 0 else j - 1, b), c) for j in present]
    queries = rows if setting.weights == "identity" else [(sum(row, zero),) * (g + 2) for row in rows]
    return Tokens(tuple(dict.fromkeys(queries)), tuple(rows), tuple(multiplicity[j] for j in present), 1, 1)


def _unit(g: int, k: int, value: Fraction) -> Token:
    return tuple(value if i == k else Fraction(0) for i in range(g))
