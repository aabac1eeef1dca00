"""The smallest beta for which the reduction of Lemma B.1 (Alman and Song) decides every instance.

Inner products are integers; in case 1 one is at least h, in case 2 none is above l. There are P = n_b n_c pairs, the
padding is w >= h, and y = beta / (d + w). The output is an increasing function of S = sum_jk exp(y <a, b_j, c_k>), so

    least S in case 1:    exp(h y) + P - 1      (one pair at h, the others at 0)
    largest S in case 2:  P exp(l y)            (all pairs at l)

and both values occur. **On exact outputs** a threshold that decides exists if and only if
exp(h y) - 1 > P (exp(l y) - 1). At equality the two instances have the same output, so that no rule of any kind
decides. For smaller beta no threshold decides. Nor does any other rule at the beta with exp(h y) - 1 = M (exp(l y) -
1), for any number M <= P of pairs that can be at l. The beta of equality satisfies

    beta <= 2 (d + w) ln n / (h - l), which is 4 C / (C_0 eps) ln n at w = d: the paper uses 40 instead of 4.

**By the lemma's rule**, u >= 2 t tilde, with an error up to t tilde = exp(h y) / (12 P exp(w y)), case 1 is decided
correctly for every beta, and case 2 if its largest output is at most t tilde:

    exp((h - l) y) (1 + 2 exp(-w y) + exp((l - w) y)) >= 12 P.

The left side is increasing wherever it can reach 12 P >= 12, so there is one smallest beta, and it lies between (d + w)
ln(12 P - 3) / (h - l) and (d + w) ln(12 P) / (h - l). The proofs are in docs/derivations/hardness-chain.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.hardness.maxip import GapMaxIP


def beta_on_exact_outputs(pairs: int, low: int, high: int, width: int) -> float:
    """The largest beta at which no rule decides all instances from exact outputs; 0.0 if every beta > 0 works.

    Args:
        pairs: P, the number of pairs (j, k).
        low: l, the largest integer of case 2.
        high: h, the least integer of case 1.
        width: d + w.

    Example:
        >>> round(beta_on_exact_outputs(pairs=100, low=2, high=4, width=24), 3)  # z^4 + 99 = 100 z^2 at z^2 = 99
        55.141
        >>> beta_on_exact_outputs(pairs=100, low=0, high=4, width=24)
        0.0
    """
    _check(pairs, low, high, high)
    if high >= pairs * low:
        return 0.0
    # The solution lies between the minimum of exp(h y) - P exp(l y) and the point where the two terms are equal.
    bottom = math.log(pairs * low / high) / (high - low)
    top = math.log(pairs) / (high - low)
    return width * _border(lambda y: _log_expm1(high * y) <= math.log(pairs) + _log_expm1(low * y), bottom, top)


def beta_of_the_rule(pairs: int, low: int, high: int, pad: int, width: int) -> float:
    """The beta above which the lemma's threshold rule works for every instance and every error up to t tilde.

    Args:
        pairs: P, the number of pairs (j, k).
        low: l, the largest integer of case 2.
        high: h, the least integer of case 1.
        pad: w, at least h.
        width: d + w.

    Example:
        >>> border = beta_of_the_rule(pairs=100, low=2, high=4, pad=12, width=24)
        >>> 12 * math.log(1197) <= border <= 12 * math.log(1200)
        True
    """
    _check(pairs, low, high, pad)

    def too_small(y: float) -> bool:
        rest = math.log1p(2 * math.exp(-pad * y) + math.exp((low - pad) * y))
        return (high - low) * y + rest < math.log(12 * pairs)

    return width * _border(too_small, math.log(12 * pairs - 3) / (high - low), math.log(12 * pairs) / (high - low))


def printed_beta(n: int, dimension: int, threshold: float, epsilon: float, *, root: int = 3) -> float:
    """The paper's beta = B^3 of Equation (3), where C / C_0 is d / t.

    Args:
        n: the number of vectors.
        dimension: d.
        threshold: t.
        epsilon: eps.
        root: which root of 40 C / (C_0 eps) C_b is: Equation (9) needs the cube root (3), and the paper prints the
            square root (2).

    Example:
        >>> [round(printed_beta(100, 20, 10, 0.5, root=root) / math.log(100), 3) for root in (3, 2)]
        [160.0, 2023.858]
    """
    return math.pow(40 * dimension / (threshold * epsilon), 3 / root) * math.log(n)


def least_of_case_1(n: int, dimension: int, low: int, high: int) -> GapMaxIP:
    """The instance of case 1 with the least output: one a, n vectors b and c, one pair at `high`, all others at 0."""
    ones = (torch.arange(dimension) < high).to(torch.uint8)
    zeros = torch.zeros(n, dimension, dtype=torch.uint8)
    zeros[0] = ones
    return GapMaxIP(ones[None], zeros, zeros, high, 1 - low / high)


def largest_of_case_2(n: int, dimension: int, low: int, high: int, *, pairs: tuple[int, int] | None = None) -> GapMaxIP:
    """The instance of case 2 with the largest output: one a, n vectors b and c, all pairs at `low`.

    Args:
        n: the number of vectors b, and of vectors c.
        dimension: d.
        low: l, the largest integer of case 2.
        high: h, the least integer of case 1.
        pairs: if not None, only the pairs of the first `pairs[0]` vectors b and the first `pairs[1]` vectors c are at
            `low`, and the others are at 0.
    """
    ones = (torch.arange(dimension) < low).to(torch.uint8)
    first, second = (n, n) if pairs is None else pairs
    b, c = ((torch.arange(n) < count)[:, None] * ones for count in (first, second))
    return GapMaxIP(ones[None], b, c, high, 1 - low / high)


def _check(pairs: int, low: int, high: int, pad: int) -> None:
    whole("pairs", pairs, low=1)
    whole("low", low, low=0, high=high - 1)
    if pad < high:
        raise ArgumentError("pad", expected=f"at least high = {high}: a blank must outweigh a triple", got=pad)


def _log_expm1(x: float) -> float:
    """The logarithm ln(exp(x) - 1) for x > 0, without overflow."""
    return x + math.log(-math.expm1(-x))


def _border(below: Callable[[float], bool], low: float, high: float) -> float:
    """The largest float at which `below` holds, by bisection; it must hold at `low` and fail at `high`."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return low
