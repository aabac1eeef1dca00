"""A third implementation of order-k attention, number by number in mpmath: the checker is tested against it."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
from flint import arb, ctx


def literal(query, keys, values, scale, digits=60):
    """The output (d_v,) and the log-sum-exp of one query over all tuples, as mpmath numbers."""
    with mpmath.workdps(digits):
        numerator, denominator = [mpmath.mpf(0)] * len(values[0][0]), mpmath.mpf(0)
        for t in itertools.product(*(range(len(key)) for key in keys)):
            score = mpmath.mpf(scale) * mpmath.fsum(
                mpmath.fprod([q, *(key[j][at] for key, j in zip(keys, t, strict=True))]) for at, q in enumerate(query)
            )
            weight = mpmath.exp(score)
            denominator += weight
            for c in range(len(numerator)):
                numerator[c] += weight * mpmath.fprod(value[j][c] for value, j in zip(values, t, strict=True))
        return [x / denominator for x in numerator], mpmath.log(denominator)


def holds(ball, number, off=0.0):
    """Whether a ball, shifted by `off`, contains an mpmath number, up to the last digits of that number."""
    with ctx.workprec(200), mpmath.workdps(60):
        last = mpmath.nstr(abs(number) * mpmath.mpf(10) ** -45, 5)
        return bool((ball + off).overlaps(arb(mpmath.nstr(number, 50), last)))


def draw_sets(seed, lengths, d=3, d_v=2, size=1.0):
    """A query (d,) and one key set and value set for each length."""
    rng = np.random.default_rng(seed)
    query = size * rng.standard_normal(d)
    return query, *([rng.standard_normal((length, width)) for length in lengths] for width in (d, d_v))
