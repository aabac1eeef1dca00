"""The number of roundings of the tokens of a stream when they are added to its sums, and the resulting error bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.bounds import SMALLEST_SCALE
from separatrix.attention.near_linear.bounded_plan import BoundedPlan
from separatrix.errors import SeparatrixError


def roundings_of_chunks(before: int, tokens: int, chunk: int) -> int:
    """The number of roundings of a token after more tokens were added to its set, in chunks of monomials.

    Args:
        before: The largest number of roundings before that.
        tokens: The number of tokens that are added.
        chunk: The number of tokens in a chunk.

    Example:
        >>> roundings_of_chunks(0, 64, 64), roundings_of_chunks(1000, 64, 64)
        (130, 1001)
    """
    added = Summing(chunk, chunk).tokens([tokens])
    # The addition adds one rounding to the earlier tokens and to the new tokens.
    return max(before, added.count() + added.count(wide=True)) + 1


def roundings_of_few(before: int, tokens: int) -> int:
    """The number of roundings of a token after a call with this many tokens; `before` is the number before the call.

    >>> roundings_of_few(0, 1), roundings_of_few(1, 1), roundings_of_few(1, 4)
    (2, 2, 5)
    """
    return max(before, tokens) + 1


def relative_rounding(
    plan: BoundedPlan, tokens: Sequence[int], largest: Sequence[float], roundings: Sequence[int]
) -> float:
    """The relative rounding error of a sum over all tuples of tokens; infinite if the values overflow or underflow.

    Args:
        plan: The plan of the states.
        tokens: The number of tokens of each set.
        largest: The largest magnitude among the values of each set.
        roundings: The number of roundings of a token of each set.
    """
    logs = [math.log2(x) for x in largest if x]
    low, high = sum(min(log, 0.0) for log in logs), sum(max(log, 0.0) for log in logs)
    if low < math.log2(SMALLEST_SCALE[torch.float64]) or high + sum(map(math.log2, filter(None, tokens))) > 1000:
        return math.inf  # products of values of several sets, or their sums, overflow or underflow
    return plan.rounding(sum(roundings))


def refuse_roundings(
    plan: BoundedPlan, tolerance: float, tokens: Sequence[int], largest: Sequence[float], roundings: Sequence[int]
) -> None:
    """Raise a `SeparatrixError` if the rounding error of the sums makes the error bound exceed the tolerance.

    Args:
        plan: The plan of the states.
        tolerance: The tolerance, relative to the magnitude of the values.
        tokens: The number of tokens of each set.
        largest: The largest magnitude among the values of each set.
        roundings: The number of roundings of a token of each set.
    """
    error = plan.total_error(relative_rounding(plan, tokens, largest, roundings))
    if error > tolerance:
        raise SeparatrixError(
            f"state: for {list(tokens)} tokens the error bound {error:.3g} exceeds the tolerance {tolerance:.3g} "
            "(relative to the values' magnitude). Use a lower bound, or append more tokens per call."
        )
