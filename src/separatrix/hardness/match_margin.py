r"""The distance of a near miss from a match in the tasks of `matching`, and the sharpness that an attention head
therefore needs.

A head with F frequencies gives a tuple of tokens with sum s the score beta C(s),

    C(s) = (1/F) sum_f cos(2 pi f s / M),    C = 1 iff s = 0 (mod M), else C <= 1 - mu, mu the margin.

With one frequency mu = 1 - cos(2 pi / M), about 2 pi^2 / M^2. With the frequencies 1, g, ..., g^(F-1) it is at least (1
- cos(2 pi delta)) / F with delta = min(1 / (2 g), g^(F-1) / M), about M^(-1/F) / 2: a wider head can distinguish sums
with a smaller inverse temperature. Every formula here is proved in docs/derivations/triple-detection.md.

>>> round(margin(50), 12) == round(1 - math.cos(2 * math.pi / 50), 12)
True
>>> frequencies(10_000, 2), round(margin(10_000, 2) * 10_000, 2)
((1, 71), 4.89)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.hardness.matching import LARGEST_MODULUS

_LEAST_RESOLUTION = 3.0
_SUM_ERROR = 1 / 20


@dataclass(frozen=True)
class Sharpness:
    """The numbers that determine a head for n tokens.

    Attributes:
        inverse_temperature: beta.
        blank: the score of the tuple of blanks.
        entry_bound: the entry bound B of Q and the keys at scale 1. At the papers' scale 1 / d it is larger by the
            factor d^(1/k), with d = k F + 1.
    """

    inverse_temperature: float
    blank: float
    entry_bound: float


def sharpness(n: int, modulus: int, order: int, count: int = 1, dtype: torch.dtype | None = torch.float64) -> Sharpness:
    r"""The sharpness with which a head's output is at least 16/21 at a match and at most 1/5 elsewhere.

    With N = (n + 1)^(k-1) - 1, rho the reciprocal of `resolution` and L = (ln 4 + rho ln N) / (1/2 - rho):

        beta = (ln N + L) / min(1, mu),    blank = beta - L / 2,    B = max(2^(k-1) beta / (k F), blank)^(1/k)

    The bounds on the output hold in the worst case for scores rounded in `dtype`.

    Args:
        n: the number of tokens.
        modulus: M.
        order: the order k of the head.
        count: the number F of frequencies.
        dtype: torch.float32 or torch.float64; None means exact arithmetic, where rho = 0 and L = ln 16.

    Raises:
        ArgumentError: if the scores cannot be distinguished in `dtype`, or the rounding error of its sums would be too
        large.

    Example:
        >>> round(sharpness(100, 10, 3, dtype=None).inverse_temperature * margin(10) - math.log(16 * (101**2 - 1)), 12)
        0.0
    """
    n, order = whole("n", n, low=1), whole("order", order, low=2)
    log_N = math.log((n + 1) ** (order - 1) - 1)
    if dtype is None:
        rho = 0.0
    else:
        if dtype not in (torch.float32, torch.float64):
            raise ArgumentError("dtype", expected="torch.float32 or torch.float64", got=str(dtype))
        rho = 1 / _resolved(modulus, order, count, dtype)
        _check_sums(n, order, dtype)
    L = (math.log(4) + rho * log_N) / (0.5 - rho)
    beta = (log_N + L) / min(1.0, margin(modulus, count))
    blank = beta - L / 2
    return Sharpness(beta, blank, max(2 ** (order - 1) * beta / (order * count), blank) ** (1 / order))


def frequencies(modulus: int, count: int = 1) -> tuple[int, ...]:
    """The frequencies 1, g, ..., g^(F-1) modulo M, with the g near (M / 2)^(1/F) that maximises the bound on the
    margin.

    Args:
        modulus: M.
        count: the number F of frequencies.
    """
    g = _ratio(modulus, count)
    return tuple(pow(g, f, modulus) for f in range(count))


def margin(modulus: int, count: int = 1) -> float:
    """A lower bound on 1 - C(s) for s not 0 modulo M, with the frequencies that `frequencies` chooses.

    With one frequency it is the minimum itself.

    Args:
        modulus: M.
        count: the number F of frequencies.
    """
    g = _ratio(modulus, count)
    return 2 * math.sin(math.pi * float(_distance(g, modulus, count))) ** 2 / count


def resolution(modulus: int, order: int, count: int, dtype: torch.dtype) -> float:
    r"""The ratio 1 / rho: min(1, mu) divided by a bound on the rounding errors of scores at beta = 1.

    The bound is for the score of a tuple of tokens and that of the tuple of blanks together.

    The bound is 1.01 (sigma c + k eta + k) u with u the unit roundoff, eta = 1 + 9 u_64 / u units for an entry of Q or
    K, c = k eta + k - 1 + k F for a term of a score, and sigma beta an upper bound on the sum of the magnitudes of the
    terms of a score, where sigma is binom(k, k/2) / 2 for even k, and sqrt(binom(k-1, (k-1)/2) binom(k+1, (k+1)/2)) / 2
    for odd k.

    Args:
        modulus: M.
        order: the order k of the head.
        count: the number F of frequencies.
        dtype: the type of the scores.
    """
    u = torch.finfo(dtype).eps / 2
    eta = 1 + 9 * (torch.finfo(torch.float64).eps / 2) / u
    k, even = order, [order, order] if order % 2 == 0 else [order - 1, order + 1]
    sigma = math.sqrt(math.prod(math.comb(p, p // 2) for p in even)) / 2
    c = k * eta + k - 1 + k * count
    return min(1.0, margin(modulus, count)) / (1.01 * (sigma * c + k * eta + k) * u)


def largest_modulus(order: int, count: int, dtype: torch.dtype) -> int:
    """The largest M for which a head is proved correct in `dtype`, as far as the rounding of scores is concerned.

    Args:
        order: the order k of the head.
        count: the number F of frequencies.
        dtype: the type of the scores.

    Example:
        >>> largest_modulus(3, 1, torch.float32), largest_modulus(3, 1, torch.float64) > 24_000_000
        (2346, True)
    """
    low, high = max(2, 1 << (whole("frequencies", count, low=1, high=32) - 1)), LARGEST_MODULUS
    if resolution(low, order, count, dtype) < _LEAST_RESOLUTION:
        raise ArgumentError("order", expected=f"an order whose scores {dtype} can distinguish", got=order)
    while low < high:
        middle = (low + high + 1) // 2
        proved = resolution(middle, order, count, dtype) >= _LEAST_RESOLUTION
        low, high = (middle, high) if proved else (low, middle - 1)
    return low


def _resolved(modulus: int, order: int, count: int, dtype: torch.dtype) -> float:
    """The resolution; an error if the modulus is too large for it."""
    resolved = resolution(modulus, order, count, dtype)
    if resolved >= _LEAST_RESOLUTION:
        return resolved
    more = (c for c in range(count + 1, modulus.bit_length() + 1))
    enough = next((c for c in more if resolution(modulus, order, c, dtype) >= _LEAST_RESOLUTION), None)
    if enough is None:
        raise ArgumentError("order", expected=f"an order whose scores {dtype} can distinguish", got=order)
    raise ArgumentError(
        "modulus",
        expected=f"at most {largest_modulus(order, count, dtype)} at order {order} with frequencies={count} and "
        f"{dtype} (frequencies={enough} would do)",
        got=modulus,
    )


def _check_sums(n: int, order: int, dtype: torch.dtype) -> None:
    """Raise an error if rounding might change the sum of the (n + 1)^(k-1) weights by more than one part in twenty."""
    most = _SUM_ERROR * 2 / torch.finfo(dtype).eps
    if (n + 1) ** (order - 1) > most:
        longest = math.floor(most ** (1 / (order - 1))) - 1
        raise ArgumentError("x", expected=f"at most {longest} tokens at order {order} in {dtype}", got=f"{n} tokens")


def _distance(g: int, modulus: int, count: int) -> Fraction:
    """The distance delta: for every s not 0 modulo M, some frequency f has f s / M at least that far from integers."""
    return min(Fraction(1, 2 * g), Fraction(g ** (count - 1), modulus))


def _ratio(modulus: int, count: int) -> int:
    modulus = whole("modulus", modulus, low=2, high=LARGEST_MODULUS)
    count = whole("frequencies", count, low=1, high=modulus.bit_length())
    near: int = max(1, math.floor((modulus / 2) ** (1 / count)))
    return max((near, near + 1), key=lambda g: _distance(g, modulus, count))
