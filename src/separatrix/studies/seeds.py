"""Means over seeds with Student's confidence interval, of single runs or of differences paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.claims.ledger import Interval

LEARNED = 0.9
"""A model has learned a task if its accuracy exceeds this number."""
_CONFIDENCE = 0.95


def interval(values: Sequence[float]) -> Interval:
    """The mean over seeds with Student's confidence interval.

    Example:
        >>> str(interval([0.9, 0.95, 1.0]))
        '0.95 (0.825793 to 1.07421 at 95%)'
    """
    return paired(values, [0.0] * len(values))


def paired(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The mean difference of two kinds of runs, paired by seed, with Student's confidence interval.

    Example:
        >>> str(paired([0.9, 0.95, 1.0], [0.6, 0.6, 0.6]))
        '0.35 (0.225793 to 0.474207 at 95%)'
    """
    difference = np.subtract(first, second)
    from scipy.stats import t as student  # type: ignore[import-untyped]  # slow to import

    half = student.ppf(0.5 + _CONFIDENCE / 2, len(difference) - 1) * difference.std(ddof=1) / len(difference) ** 0.5
    mean = float(difference.mean())
    return Interval(mean, mean - float(half), mean + float(half), _CONFIDENCE)
