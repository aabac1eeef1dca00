r"""The sign vectors y on which a network fires: those with at least a certain number of signs +1.

Fix a data set with special key j3. The value <c_{j0}, y> depends on y only through the sign of the first coordinate,
the sign of j3's class (*own*), the sign of the last coordinate, and the numbers P_1, P_2 of signs +1 among the other
classes of each size:

    Z <c_{j0}, y> = s_first a w_special + s_own b (w_special + (size_own - 1) w_own) + s_last c Z
                    + sum over the sizes z of b size_z w_rest (2 P_z - N_z) + s_query b size_query (w_query - w_rest)

The last term occurs only for a query of another class; as w_query >= w_rest, the largest value over those queries is
reached at a class with sign +1 if there is one of that size, and otherwise at one with sign -1. All weights and b are
nonnegative, so changing a class's sign to +1 lowers no row: for fixed other signs and P_2 the network fires exactly if
P_1 is at least a threshold. This threshold is the smallest of the thresholds of the kinds of rows. Each of these is
found by one division in fixed point; if the error bound excludes neither answer, `radicals` decides exactly. If n is
very large, a single weight usually decides for all P_1 and P_2 at once, and 256 bits of it are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from separatrix.separation.extended import rough_power
from separatrix.separation.radicals import Term, power, sign
from separatrix.separation.rows import Network, Row

Signs = tuple[int, int, int]
"""The signs (first, own, last) of the first coordinate, of j3's class and of the last coordinate, each +1 or -1."""

Thresholds = dict[Signs, tuple[int, ...]]
"""For each choice of signs and each P_2, the least P_1 at which a network fires; N_1 + 1 if it fires at none."""

_BITS = 64


@dataclass(frozen=True)
class Classes:
    """The two sizes of classes, and how many classes have each size; the more frequent size comes first.

    >>> Classes.split(200, 11), Classes.split(200, 20)
    (Classes(size=(18, 19), number=(9, 2)), Classes(size=(10, 11), number=(20, 0)))
    """

    size: tuple[int, int]
    number: tuple[int, int]

    @classmethod
    @lru_cache(maxsize=256)
    def split(cls, n: int, g: int) -> Classes:
        """The sizes of g classes of n rows in total, of which n mod g classes are larger by one."""
        t, larger = divmod(n, g)
        if larger <= g - larger:
            return cls((t, t + 1), (g - larger, larger))
        return cls((t + 1, t), (larger, g - larger))


def firing_thresholds(network: Network, classes: Classes, own: int, last_signs: tuple[int, ...]) -> Thresholds:
    """The least P_1 at which a network fires, for each choice of signs and each P_2.

    P_1 and P_2 count the signs +1 among the classes other than j3's, of the first and of the second size.

    Args:
        network: the network on one data set.
        classes: the sizes of the classes.
        own: the index in `classes.size` of the size of j3's class.
        last_signs: the signs of the last coordinate to make a table for.

    Example:
        >>> from fractions import Fraction
        >>> from separatrix.separation.rows import cross_attention_networks
        >>> softmax, linear = cross_attention_networks(200, Fraction(3), Fraction("0.9"))
        >>> classes = Classes.split(200, 10)
        >>> firing_thresholds(softmax, classes, 0, (1,))[1, 1, 1], firing_thresholds(linear, classes, 0, (1,))[1, 1, 1]
        ((0,), (9,))
    """
    N = (classes.number[0] - (own == 0), classes.number[1] - (own == 1))
    powers = [rough_power(network.n, e, _BITS) if e else (1 << _BITS, 0) for e in network.exponents]
    lines = [line for row in network.rows for line in _lines(network, powers, row, classes, own, N)]
    never = N[0] + 1
    table = {}
    for last in last_signs:
        able = [line for line in lines if line.largest + last * line.last > -line.error]
        for first in (1, -1):
            for own_sign in (1, -1):
                thresholds = [[never] * (N[1] + 1), *(line.thresholds(first, own_sign, last) for line in able)]
                table[first, own_sign, last] = tuple(map(min, zip(*thresholds, strict=True)))
    return table


def _lines(
    network: Network, powers: list[tuple[int, int]], row: Row, classes: Classes, own: int, N: tuple[int, int]
) -> Iterator[_Line]:
    """The cases of a kind of row: one for each size and sign of the query's class if it is another class, otherwise
    one. A kind without queries has no cases.
    """
    if row.queries == "other class":
        for z in (0, 1):
            if N[z] > 0 and classes.size[z] > 0:
                yield _Line(network, powers, row, classes, own, N, z, 1)
                yield _Line(network, powers, row, classes, own, N, z, -1)
    elif row.queries != "own class" or classes.size[own] > 1:
        yield _Line(network, powers, row, classes, own, N, None, 0)


class _Line:
    """The form Z (<c_{j0}, y> - tau) for one case of one kind of row: linear in P_1 and P_2, in fixed point."""

    __slots__ = (
        "N", "Z", "centre", "error", "errors", "first", "fixed", "largest", "last", "network", "own", "query",
        "query_sign", "range", "slopes",
    )  # fmt: skip

    def __init__(
        self,
        network: Network,
        powers: list[tuple[int, int]],
        row: Row,
        classes: Classes,
        own: int,
        N: tuple[int, int],
        query: int | None,
        query_sign: int,
    ) -> None:
        self.network, self.N, self.query, self.query_sign = network, N, query, query_sign
        # If the sign of the query is +1, at least one class of the query's size has this sign. A query of sign -1
        # matters only if no class of its size has sign +1.
        self.range = (0, N[0]) if query != 0 else (1, N[0]) if query_sign > 0 else (0, 0)
        a, b, c, tau = network.a, network.b, network.c, network.tau
        at_query = 0 if query is None else classes.size[query]
        other_members = classes.size[own] - 1
        # Z as multiples of the four weights; the last one, of the remaining keys, is an integer.
        (q_special, i_special), (q_own, i_own), (q_query, i_query) = row.special, row.own, row.query
        q_own, q_query, q_rest = (
            other_members * q_own,
            at_query * q_query,
            (network.n - 1 - other_members - at_query) * row.rest,
        )
        self.Z = ((q_special, i_special), (q_own, i_own), (q_query, i_query), (q_rest, 0))
        of_size = b * row.rest * classes.size[0], b * row.rest * classes.size[1]
        self.centre = of_size[0] * N[0] + of_size[1] * N[1] + query_sign * b * row.rest * at_query
        self.slopes = (2 * of_size[0], 2 * of_size[1])

        special, query_keys = q_special * powers[i_special][0], q_query * powers[i_query][0]
        with_own = special + q_own * powers[i_own][0]
        total = with_own + query_keys + (q_rest << _BITS)
        self.first, self.own, self.last = a * special, b * with_own, c * total
        self.fixed = query_sign * b * query_keys - (self.centre << _BITS)
        # The errors of the three weights, and of the factor of tau if this factor is not Z.
        self.errors = (q_special * powers[i_special][1], q_own * powers[i_own][1], q_query * powers[i_query][1], 0)
        if network.logs:
            self.fixed -= tau * sum(q * power(network.n, network.exponents[i], 1, _BITS) for q, i in self.Z)
            self.errors = (*self.errors[:3], 2 * (q_special + q_own + q_query + q_rest))
        else:
            self.fixed -= tau * total
        self.error = sum(self.errors) * (a + 2 * b + c + abs(tau))
        most = self.slopes[0] * self.range[1] + self.slopes[1] * N[1] * (query != 1 or query_sign > 0)
        self.largest = self.first + self.own + self.fixed + (most << _BITS)

    def thresholds(self, first: int, own: int, last: int) -> list[int]:
        """For each P_2, the least P_1 at which the form is positive for these signs; N_1 + 1 if there is none."""
        low, high = self.range
        never, count = self.N[0] + 1, self.N[1]
        base = first * self.first + own * self.own + last * self.last + self.fixed
        error = self._error(first, own, last)
        slope, step = self.slopes[0] << _BITS, self.slopes[1] << _BITS
        # A query in a class of the second size requires a P_2 for which some class of this size has the query's sign.
        allowed = [self.query != 1 or (P2 > 0) == (self.query_sign > 0) for P2 in range(count + 1)]
        if low > high or base + slope * high + step * count <= -error:
            return [never] * (count + 1)
        if base + slope * low > error:
            return [low if is_allowed else never for is_allowed in allowed]
        signs = first, own, last
        return [
            self._threshold(signs, base + step * P2, error, P2) if allowed[P2] else never for P2 in range(count + 1)
        ]

    def _error(self, first: int, own: int, last: int) -> int:
        """A bound on the error for these signs: the error of each weight, times the magnitude of its coefficient."""
        a, b, c, tau = self.network.a, self.network.b, self.network.c, self.network.tau
        special, own_keys, query_keys, logs = self.errors
        common = last * c - (0 if self.network.logs else tau)
        return (
            abs(first * a + own * b + common) * special
            + abs(own * b + common) * own_keys
            + abs(self.query_sign * b + common) * query_keys
            + abs(tau) * logs
        )

    def _threshold(self, signs: Signs, base: int, error: int, P2: int) -> int:
        """The least P_1 at which the form is positive, where `base` is the part of it that does not depend on P_1."""
        low, high = self.range
        slope = self.slopes[0] << _BITS
        if slope:
            least = (error - base) // slope + 1
            if error and (maybe := (-error - base) // slope + 1) < least:
                doubtful = range(max(maybe, low), min(least, high + 1))
                least = next((P1 for P1 in doubtful if self._sign(signs, P1, P2) > 0), least)
            least = max(least, low)
        else:
            least = low if base > error or self._sign(signs, low, P2) > 0 else high + 1
        return least if least <= high else self.N[0] + 1

    def _sign(self, signs: Signs, P1: int, P2: int) -> int:
        """The exact sign of the form at these signs, P_1 and P_2."""
        first, own, last = signs
        a, b, c, tau = self.network.a, self.network.b, self.network.c, self.network.tau
        e = self.network.exponents
        special, own_keys, query_keys, _ = self.Z
        values: list[Term] = [
            ((first * a + own * b) * special[0], e[special[1]], 0),
            (own * b * own_keys[0], e[own_keys[1]], 0),
            (self.query_sign * b * query_keys[0], e[query_keys[1]], 0),
            (self.slopes[0] * P1 + self.slopes[1] * P2 - self.centre, e[0], 0),
        ]
        for q, i in self.Z:
            values += [(last * c * q, e[i], 0), (-tau * q, e[i], self.network.logs)]
        return sign(self.network.n, values)
