"""The rank, the order and the threshold in Alman and Song's theorems, for comparison with a plan."""

from __future__ import annotations

import math

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError


def paper_rank(d: int, degree: int, order: int) -> int:
    """The rank that Lemma E.1 of Alman and Song counts, C(k (d + g), k g): the monomials of all k d variables.

    >>> paper_rank(8, 4, 3)
    1251677700
    """
    return math.comb(order * (d + degree), order * degree)


def max_order(n: int, bound: float) -> float:
    """The largest order k with bound < (ln n)^(1/k), the rule of Alman and Song's introduction; infinity if every k
    qualifies.

    For a bound of at most 1 (and n >= 3) every order qualifies. The result may be below 2: then not even ordinary
    attention qualifies.

    >>> max_order(10**6, 1.5), max_order(10**6, 1.0), max_order(10**6, 20.0)
    (6, inf, 0)
    """
    if not is_whole(n, low=2):
        raise ArgumentError("n", expected="an integer >= 2", got=n)
    if not (isinstance(bound, (int, float)) and 0 <= bound < math.inf):
        raise ArgumentError("bound", expected="a finite number >= 0", got=bound)
    log_n = math.log(n)
    if bound <= 1:
        return math.inf if bound < 1 or log_n > 1 else 0
    k = 0
    while bound ** (k + 1) < log_n:
        k += 1
    return k


def threshold(n: int, order: int) -> float:
    """(ln n)^(1/k), where Theorems 1.3 and 1.4 of Alman and Song put the border between slow and near-linear
    attention."""
    return math.log(n) ** (1 / order) if n > 1 else 0.0
