r"""From one sign vector to m of them: the five probabilities and, as precisely, their complements.

A share p of the sign vectors gives (1 - p)^m and 1 - (1 - p)^m, and success in a case is

    (1 - bad)^m - (1 - bad - good)^m = (1 - bad)^m (1 - (1 - good / (1 - bad))^m)

with `good` counted where nothing is bad. The shares are exact. The probabilities are computed from them in float64
through logarithms; their complements, which a theorem's "1 - delta / poly(n)" may make as small as 10^-50000, in 256
bits.
"""

from __future__ import annotations

from math import exp, expm1, inf, log, log1p
from typing import Any

from separatrix.separation.extended import EXTENDED, log10, real
from separatrix.separation.mixture import Mixture
from separatrix.separation.results import Probabilities

__all__ = ["log10_failures", "probabilities"]


def probabilities(mixture: Mixture, m: int, shared_signs: bool) -> Probabilities:
    """The five probabilities; `shared_signs` says whether the four networks see the same y."""
    d1, d0 = (
        [(float(case), _log_rest(part, whole), _log_rest(other, whole)) for case, (part, whole), (other, _) in cases]
        for cases in (mixture.d1, mixture.d0)
    )
    if shared_signs:
        success = sum(
            float(case) * _silent(_log_rest(bad, whole), m) * _fires(_log_rest(good, whole - bad), m)
            for case, (bad, whole), (good, _) in mixture.joint
            if good
        )
    else:
        on_d1 = sum(w * _fires(p, m) * _silent(q, m) for w, p, q in d1)
        success = on_d1 * sum(w * _silent(p, m) * _silent(q, m) for w, p, q in d0)
    return Probabilities(
        exp_fires_on_d1=sum(w * _fires(p, m) for w, p, _ in d1),
        lin_silent_on_d1=sum(w * _silent(q, m) for w, _, q in d1),
        exp_silent_on_d0=sum(w * _silent(p, m) for w, p, _ in d0),
        lin_silent_on_d0=sum(w * _silent(q, m) for w, _, q in d0),
        success=success,
    )


def _log_rest(part: Any, whole: Any) -> float:
    """ln(1 - part / whole), of exact counts: near 1 it is the rest that is rounded, not the share."""
    if part == whole:
        return -inf
    return log1p(-float(part / whole)) if 2 * part < whole else log(float((whole - part) / whole))


def _silent(log_rest: float, m: int) -> float:
    """(1 - p)^m."""
    return exp(m * log_rest)


def _fires(log_rest: float, m: int) -> float:
    """1 - (1 - p)^m."""
    return -expm1(m * log_rest)


def log10_failures(mixture: Mixture, m: int, shared_signs: bool) -> Probabilities:
    """log10(1 - probability) for each of the five; -inf where the complement is exactly zero."""
    joint, d1, d0 = (
        [
            (real(case), EXTENDED.mpf(part) / whole, EXTENDED.mpf(other) / whole)
            for case, (part, whole), (other, _) in cases
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
    """1 - (1 - p)^m, to a relative error below 2^-120 however small p is."""
    if p * m < _SMALL:
        return m * p * (1 - (m - 1) * p / 2)
    return 1 - (1 - p) ** m


_SMALL = EXTENDED.mpf(2) ** -64


def _either(x: Any, y: Any) -> Any:
    """The probability that one of two independent events happens."""
    return x + y - x * y
