r"""The exact law of <c_{j0}, sigma> for one row j0 and one random sign vector sigma.

The row has few different coordinates: the first, that of j3's class, in self-attention those of the row's own class and
the last, and all the others, which are equal, so that only the number P of +1 among their signs matters. With the
weights w of `separation.rows`, their sum Z over the keys, and t rows per class,

    Z (<c_{j0}, sigma> - tau) = s_1 a w_special + s_own b (w_special + (t - 1) w_own) + s_query b t w_query
                                + s_last c Z + b t w_rest (2 P - N) - tau Z,

which increases with P. The smallest P for which this expression is positive is estimated by one division in fixed
point, and corrected by exact signs (`radicals.sign`) at the neighbouring P; P is binomial. `separation.firing` asks
which sign vectors make *some* row fire; here a single row is considered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from separatrix.errors import ArgumentError
from separatrix.separation.binomial import tails, total
from separatrix.separation.extended import EXTENDED
from separatrix.separation.radicals import Term, power, sign
from separatrix.separation.rows import Network, Row, cross_attention_networks, self_attention_networks

_BITS = 64


@dataclass(frozen=True)
class OneRow:
    """A row j0 of attention on the paper's data, with the probabilities that it exceeds or reaches a threshold."""

    network: Network
    row: Row
    g: int

    def exceeds(self, last: int | None = None) -> Any:
        """P[<c_{j0}, sigma> > tau], given the sign `last` of the last coordinate unless it is None; a number of
        `EXTENDED`.

        >>> special = one_row("ones", "exp", "special", n=10**6, g=100, a="1.2", tau="0.9")
        >>> print(EXTENDED.nstr(special.exceeds(), 6), EXTENDED.nstr(special.exceeds(last=1), 6))
        0.25 0.5
        """
        return self._chance(last, 1)

    def reaches(self, last: int | None = None) -> Any:
        """P[<c_{j0}, sigma> >= tau]."""
        return self._chance(last, 0)

    def _chance(self, last: int | None, least: int) -> Any:
        is_other_class = self.row.queries == "other class"
        N = self.g - 1 - is_other_class
        share = tails(N)
        probability, patterns = EXTENDED.mpf(0), 0
        lasts = ((1, -1) if last is None else (last,)) if self.network.c else (1,)
        for signs in product((1, -1), (1, -1), (1, -1) if is_other_class else (0,), lasts):
            patterns += 1
            probability += share[self._least_count(signs, N, least)]
        return probability / (patterns * total(N))

    def _least_count(self, signs: tuple[int, ...], N: int, least: int) -> int:
        """The least P at which the sum has a sign of at least `least`; N + 1 if there is none."""
        fixed, slope = list(self._terms(signs, N)), 2 * self.network.b * self._t * self.row.rest
        n = self.network.n

        def there(P: int) -> bool:
            return sign(n, [*fixed, (slope * P, Fraction(0), 0)]) >= least

        estimate = -sum(q * power(n, e, 0, _BITS) for q, e, _ in fixed) // (slope << _BITS)
        P = min(max(estimate, 0), N + 1)
        while P <= N and not there(P):
            P += 1
        while P > 0 and there(P - 1):
            P -= 1
        return P

    @property
    def _t(self) -> int:
        return self.network.n // self.g

    def _terms(self, signs: tuple[int, ...], N: int) -> Iterator[Term]:
        first, own, query, last = signs
        network, row, t = self.network, self.row, self._t
        # The weight of each kind of key, the number of keys of this kind, and the sum of their values.
        kinds = (
            (row.special, 1, first * network.a + own * network.b),
            (row.own, t - 1, own * network.b),
            (row.query, t if query else 0, query * network.b),
            ((row.rest, 0), N * t, -network.b),
        )
        for (q, i), number, value in kinds:
            yield q * number * (value + last * network.c - network.tau), network.exponents[i], 0


def one_row(
    model: str, network: str, row: str, *, n: int, g: int, a: str, tau: str, b: str = "0.2", c: str = "0.8"
) -> OneRow:
    """A row of a model ("ones", "identity" or "cross"), of F_exp or F_lin, on D0 or D1 (a is a_0 or a_1).

    The `row` is "special" (j_3, or j_2 in cross-attention), "own class", "other class", or "other" if all other rows
    are equal. In self-attention tau, a, b and c are in units of sqrt(log n).
    """
    if n % g:
        raise ArgumentError("g", expected="a divisor of n", got=repr(g))
    threshold = Fraction(tau)
    if model == "cross":
        exp, lin = cross_attention_networks(n, Fraction(a), threshold)
    else:
        weights: Literal["ones", "identity"] = "ones" if model == "ones" else "identity"
        exp, lin = self_attention_networks(n, Fraction(a), Fraction(b), Fraction(c), threshold, 0, weights)
    chosen = exp if network == "exp" else lin
    names = {"other": ("all but one", "all"), "special": ("special", "all")}.get(row, (row,))
    kind = next((row for row in chosen.rows if row.queries in names), None)
    if kind is None or (row == "other class" and g < 2):
        raise ArgumentError("row", expected=f"a kind of row that {model} has with g = {g}", got=repr(row))
    return OneRow(chosen, kind, g)
