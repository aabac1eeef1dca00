r"""The five probabilities for m sign vectors, and their complements, from the shares of single sign vectors.

If a network fires on a share p of the sign vectors, it is silent on all m with probability (1 - p)^m and fires with
probability 1 - (1 - p)^m. The probability of success in a case is

    (1 - bad)^m - (1 - bad - good)^m = (1 - bad)^m (1 - (1 - good / (1 - bad))^m)

where `good` is the share of the sign vectors that are good and not bad. The shares are exact. The probabilities are
computed from them in float64 through logarithms; their complements, which a theorem's "1 - delta / poly(n)" may make as
small as 10^-50000, are computed in 256 bits.
"""

from __future__ import annotations

from math import exp, expm1, fsum, inf, log, log1p
from typing import Any

from separatrix.separation.extended import EXTENDED, log10, real
from separatrix.separation.mixture import Mixture
from separatrix.separation.results import Probabilities


def probabilities(mixture: Mixture, m: int, shared_signs: bool) -> Probabilities:
    """The probabilities of the paper's four events and of success.

    The probabilities of the cases, each rounded once, add up to at most 1 + 2^-53, which `fsum` rounds to 1: no result
    exceeds 1.

    Args:
        mixture: the shares of the sign vectors by case.
        m: the number of sign vectors.
        shared_signs: whether the four networks use the same y.
    """
    d1, d0 = (
        [(float(case), _log_rest(part, total), _log_rest(other, total)) for case, (part, total), (other, _) in cases]
        for cases in (mixture.d1, mixture.d0)
    )
    if shared_signs:
        success = fsum(
            float(case) * _silent(_log_rest(bad, total), m) * _fires(_log_rest(good, total - bad), m)
            for case, (bad, total), (good, _) in mixture.joint
            if good
        )
    else:
        on_d1 = fsum(w * _fires(p, m) * _silent(q, m) for w, p, q in d1)
        success = on_d1 * fsum(w * _silent(p, m) * _silent(q, m) for w, p, q in d0)
    return Probabilities(
        exp_fires_on_d1=fsum(w * _fires(p, m) for w, p, _ in d1),
        lin_silent_on_d1=fsum(w * _silent(q, m) for w, _, q in d1),
        exp_silent_on_d0=fsum(w * _silent(p, m) for w, p, _ in d0),
        lin_silent_on_d0=fsum(w * _silent(q, m) for w, _, q in d0),
        success=success,
    )


def _log_rest(part: Any, total: Any) -> float:
    """The logarithm ln(1 - part / whole) of exact counts, accurate also where the share is near 1."""
    if part == total:
        return -inf
    return log1p(-float(part / total)) if 2 * part < total else log(float((total - part) / total))


def _silent(log_rest: float, m: int) -> float:
    """The probability (1 - p)^m that a network is silent on m sign vectors, from ln(1 - p)."""
    return exp(m * log_rest)


def _fires(log_rest: float, m: int) -> float:
    """The probability 1 - (1 - p)^m that a network fires on one of m sign vectors, from ln(1 - p)."""
    return -expm1(m * log_rest)


def log10_failures(mixture: Mixture, m: int, shared_signs: bool) -> Probabilities:
    """The value of log10(1 - probability) for each of the five probabilities; -inf where the complement is zero."""
    joint, d1, d0 = (
        [
            (real(case), EXTENDED.mpf(part) / total, EXTENDED.mpf(other) / total)
            for case, (part, total), (other, _) in cases
        ]
        for cases in (mixture.joint, mixture.d1, mixture.d0)
    )
    if shared_signs:
        success = sum(w * (_fires_precisely(bad, m) + (1 - bad - good) ** m) for w, bad, good in joint)
    else:
        on_d1 = sum(w * _either((1 - p) ** m, _fires_precisely(q, m)) for w, p, q in d1)
        success = _either(on_d1, sum(w * _either(*(_fires_precisely(x, m) for x in (p, q))) for w, p, q in d0))
    return Probabilities(
        exp_fires_on_d1=log10(sum(w * (1 - p) ** m for w, p, _ in d1)),
        lin_silent_on_d1=log10(sum(w * _fires_precisely(q, m) for w, _, q in d1)),
        exp_silent_on_d0=log10(sum(w * _fires_precisely(p, m) for w, p, _ in d0)),
        lin_silent_on_d0=log10(sum(w * _fires_precisely(q, m) for w, _, q in d0)),
        success=log10(success),
    )


def _fires_precisely(p: Any, m: int) -> Any:
    """The probability 1 - (1 - p)^m, to a relative error below 2^-120 however small p is."""
    if p * m < _SMALL:
        return m * p * (1 - (m - 1) * p / 2)
    return 1 - (1 - p) ** m


_SMALL = EXTENDED.mpf(2) ** -64


def _either(x: Any, y: Any) -> Any:
    """The probability that at least one of two independent events happens."""
    return x + y - x * y
