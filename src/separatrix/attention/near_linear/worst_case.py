"""The methods that satisfy a tolerance for all entries up to a bound (the worst case), the plan from shapes only,
and the rank, the order and the threshold in Alman and Song's theorems.

All functions compute with a few numbers, not with tensors. Nothing here imports torch, which takes over a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from separatrix.attention.near_linear.approximation.remainder import (
    chebyshev,
    least_chebyshev,
    relative_minimax,
    taylor_factor_of_number,
)
from separatrix.attention.near_linear.cost import (
    AFFORDABLE,
    LARGEST_DEGREE,
    LARGEST_RANK,
    Shape,
    exact_cost,
    polynomial_cost,
)
from separatrix.attention.near_linear.plan import Plan
from separatrix.checks import is_whole, positive
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


LARGEST_RADIUS = 50.0
"""The largest R that is tried: beyond it exp(2 R) times the precision of float64 is more than 1."""
MARGIN = 0.9
"""The part of the tolerance that a forecast may use."""
LARGEST_MINIMAX_RADIUS = 8.0
"""The largest R for which minimax polynomials are searched for: beyond it, computing one takes a tenth of a second."""


def in_reach(shape: Shape, B: float, scale: float, tolerance_at: Callable[[float], float]) -> str:
    """Why near-linear and possibly exact attention cannot be used for entries up to B, and what would work.

    `tolerance_at` gives the allowed error relative to the values' magnitude, for entries up to a bound.
    """
    n = max(shape.query_length, *shape.key_lengths)

    highest = highest_degree(shape.d)

    def radius_at(bound: float) -> float:
        """The largest score for entries up to `bound`; infinite if it is beyond the range of floats."""
        log = shape.order * math.log(bound) if bound else -math.inf
        return scale * shape.d * math.exp(log) if log < 700 else math.inf

    def isin_reach(bound: float, looser: float = 1.0) -> bool:
        """Whether the highest degree satisfies the tolerance in the worst case; lower degrees have larger errors."""
        return keeps_tolerance(highest, radius_at(bound), looser * tolerance_at(bound))

    low, high = 0.0, B
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if isin_reach(middle) else (low, middle)
    looser = 1.0
    while looser * tolerance_at(B) < 1 and not isin_reach(B, looser):
        looser *= 10
    tolerance = looser * tolerance_at(B)
    looser_tolerance = "no tolerance below 1 at this bound"
    if tolerance < 1:
        looser_tolerance = f"a tolerance of {tolerance:.1g}, relative to the values' magnitude"
    exact = exact_cost(shape, False).flops
    exactly = ", or exact attention, which is in reach"
    if exact > AFFORDABLE:
        exactly = f", or exact attention at n <= {int(n * (AFFORDABLE / exact) ** (1 / shape.order))}"
    rank = worst_case_rank(shape.d, radius_at(B), tolerance_at(B))
    needs = f"the near-linear algorithm would take rank {rank:.3g} (at most {LARGEST_RANK} is tried)"
    if math.isinf(rank):
        needs = f"no degree up to {LARGEST_DEGREE} of the near-linear algorithm keeps the tolerance"
    return (
        f"{needs}, and exact attention takes {exact:.3g} flops (up to {AFFORDABLE:.0e} run unless you pass "
        f'method="exact"). Theorems 1.3 and 1.4 of Alman and Song put the border at B = (ln n)^(1/k) = '
        f"{threshold(n, shape.order):.3g}. What would work at d = {shape.d}, for any entries: B <= {low:.3g} at this "
        f"tolerance, or {looser_tolerance}{exactly}."
    )


def worst_case_degree(radius: float, tolerance: float) -> int | None:
    """The degree for a tolerance relative to the magnitude of the values, for any scores up to `radius`."""
    if radius > LARGEST_RADIUS:
        return None
    return next((degree for degree in range(LARGEST_DEGREE + 1) if keeps_tolerance(degree, radius, tolerance)), None)


def keeps_tolerance(degree: int, radius: float, tolerance: float) -> bool:
    """Whether a polynomial of this degree keeps the tolerance in the worst case."""
    if radius > LARGEST_RADIUS:
        return False
    moment = degree - degree % 2

    def keeps(error: float) -> bool:
        smallest = math.exp(-radius) - error
        return smallest > 0 and 2 * error / smallest <= tolerance

    if keeps(taylor_factor_of_number(degree, moment, radius) * radius**moment):
        return True
    if radius < 0.25 or not keeps(least_chebyshev(degree, 0, radius)[0]):  # a lower bound on the error
        return False
    return keeps(chebyshev(degree, 0, radius).factor or math.inf)


def relative_degree(radius: float, tolerance: float, highest: int) -> int | None:
    """The lowest degree, up to the highest, whose minimax polynomial keeps the tolerance in the worst case.

    Twice the total variation between its weights and those of exp is at most the part of the tolerance that a plan may
    use (see `bounded_plan`). The upper bound that a call computes on its scores may be slightly above `radius`.
    """
    share = MARGIN * tolerance / 2
    if radius > LARGEST_MINIMAX_RADIUS or not 0 < share < 1:
        return None
    largest_error = largest_relative_error(share)
    for degree in range(1, highest + 1):
        polynomial = relative_minimax(degree, radius * (1 + 2.0**-20), largest_error)
        if polynomial is not None and polynomial.relative is not None and polynomial.relative <= largest_error:
            return degree
    return None


def largest_relative_error(share: float) -> float:
    """The largest error relative to exp for which the total variation between the weights is at most `share`.

    The error is below 1/2, because a certificate needs weights whose sum exceeds the bound on its own error.

    >>> round(largest_relative_error(0.01), 6), largest_relative_error(1.0)
    (0.019998, 0.49)
    """
    return min(2 * share / (1 + share**2), 0.49)


def highest_degree(d: int) -> int:
    """The highest degree that is tried in d dimensions."""
    return max(g for g in range(LARGEST_DEGREE + 1) if math.comb(d + g, g) <= LARGEST_RANK)


def worst_case_rank(d: int, radius: float, tolerance: float) -> float:
    """C(d + g, g) for the degree g of the worst case; infinity where no degree up to the largest is enough."""
    by_chebyshev = worst_case_degree(radius, tolerance)
    if by_chebyshev is None:
        return math.inf
    by_minimax = relative_degree(radius, tolerance, by_chebyshev)
    degree = by_chebyshev if by_minimax is None else min(by_chebyshev, by_minimax)
    return float(math.comb(d + degree, degree))


def _short(rank: int) -> str:
    """Format a rank, which may have hundreds of digits."""
    return str(rank) if rank < 10**9 else f"about 10^{math.floor(math.log10(rank))}"


def _to_the(base: float, exponent: int) -> float:
    """A power of a nonnegative number; infinity if it is beyond the range of floats."""
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


def plan_shapes(n: int, d: int, bound: float, order: int, tolerance: float) -> Plan:
    """The plan for any n x d inputs with entries up to `bound`, values too, at scale 1/d (Definition 1.2).

    Nothing is known about the data, so that the forecast is the worst case and is never exceeded. The method is "none"
    if neither near-linear nor exact attention is possible; `why` then says what would make one possible.

    >>> plan_shapes(10**6, 8, 0.9, 3, 1e-3).rank
    495
    """
    for name, size, least, most in (("n", n, 1, 2**62), ("d", d, 1, 2**31), ("order", order, 2, 64)):
        if not is_whole(size, low=least, high=most):
            expected = f"an integer from {least} to {most if most < 2**62 else '2^62'}"
            got = f"about 2^{size.bit_length()}" if is_whole(size, low=2**31) else repr(size)
            raise ArgumentError(name, expected=expected, got=got)
    if not (isinstance(bound, (int, float)) and 0 <= bound < math.inf):
        raise ArgumentError("bound", expected="a finite number >= 0", got=repr(bound))
    tolerance = positive("tolerance", tolerance)
    shape = Shape(1, n, (n,) * (order - 1), d, d)
    radius, largest = _to_the(bound, order), _to_the(bound, order - 1)
    exact = exact_cost(shape, False)

    def relative(B: float) -> float:
        largest = _to_the(B, order - 1)
        return tolerance / largest if largest else math.inf

    degree = 0 if not largest else worst_case_degree(radius, relative(bound))
    border = threshold(n, order)
    side = f"B = {bound:.3g} is {'below' if bound < border else 'at or above'} (ln n)^(1/k) = {border:.3g}"
    why = f"{side}, and no degree up to {LARGEST_DEGREE} keeps {tolerance:.3g} in the worst case"
    degrees = {f"total degree {degree}": degree} if degree is not None else {}
    by_minimax = relative_degree(radius, relative(bound), highest_degree(d))
    if by_minimax is not None:
        degrees[f"total degree {by_minimax} (minimax, relative to exp)"] = by_minimax
    if degrees:
        kind = min(degrees, key=lambda kind: degrees[kind])
        rank = math.comb(d + degrees[kind], d)
        why = f"{side}, and the worst case takes rank {_short(rank)}, above the limit of {LARGEST_RANK}"
        if rank <= LARGEST_RANK:
            cost = polynomial_cost(shape, rank, True)
            if cost.time < exact.time:
                why = f"{side}, and rank {rank} keeps the error below {tolerance:.3g} for all such entries"
                return Plan("polynomial", degrees[kind], rank, kind, tolerance, cost.flops, cost.bytes, why)
            why = f"{side}, and the worst case takes rank {rank}, more costly than exact attention at this length"
    if exact.flops > AFFORDABLE:
        why = f"neither method is in reach: {side}; {in_reach(shape, bound, 1 / d, relative)}"
        return Plan("none", None, None, None, math.inf, exact.flops, exact.bytes, why)
    return Plan("exact", None, None, None, 0.0, exact.flops, exact.bytes, why)
