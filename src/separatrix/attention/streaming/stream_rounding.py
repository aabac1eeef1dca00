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
    """How many roundings a token has gone through once more tokens are added to its set, in chunks of monomials.

    Args:
        before: The largest number of roundings before that.
        tokens: The number of tokens that are added.
        chunk: The number of tokens in a chunk.

    Example:
        >>> roundings_of_chunks(0, 64, 64), roundings_of_chunks(1000, 64, 64)
        (130, 1001)
    """
    added = Summing(chunk, chunk).tokens([tokens])
    # What was there before is rounded once more, and so are the new tokens when they are added to it.
    return max(before, added.count() + added.count(wide=True)) + 1


def roundings_of_few(before: int, tokens: int) -> int:
    """How many roundings a token has gone through after a call of so many tokens; `before` is the number before it.

    >>> roundings_of_few(0, 1), roundings_of_few(1, 1), roundings_of_few(1, 4)
    (2, 2, 5)
    """
    return max(before, tokens) + 1


def relative_rounding(
    plan: BoundedPlan, tokens: Sequence[int], largest: Sequence[float], roundings: Sequence[int]
) -> float:
    """The relative rounding of a sum over all tuples of tokens; infinite where the values leave the range.

    Args:
        plan: The plan of the states.
        tokens: How many tokens each set has.
        largest: The largest magnitude among the values of each set.
        roundings: How many roundings a token of each set has gone through on its way into the state.
    """
    logs = [math.log2(x) for x in largest if x]
    low, high = sum(min(log, 0.0) for log in logs), sum(max(log, 0.0) for log in logs)
    if low < math.log2(SMALLEST_SCALE[torch.float64]) or high + sum(map(math.log2, filter(None, tokens))) > 1000:
        return math.inf  # products of some of the sets, or sums of these, leave the range
    return plan.rounding(sum(roundings))


def refuse_roundings(
    plan: BoundedPlan, tolerance: float, tokens: Sequence[int], largest: Sequence[float], roundings: Sequence[int]
) -> None:
    """Raise a `SeparatrixError` if the rounding error of the sums exceeds the promised error.

    Args:
        plan: The plan of the states.
        tolerance: The promised error, relative to the magnitude of the values.
        tokens: How many tokens each set has; so for the others, see `relative_rounding`.
        largest: The largest magnitude among the values of each set.
        roundings: How many roundings a token of each set has gone through.
    """
    error = plan.total_error(relative_rounding(plan, tokens, largest, roundings))
    if error > tolerance:
        raise SeparatrixError(
            f"state: with {list(tokens)} tokens outputs are certain to {error:.3g} of the values' magnitude only, "
            f"and {tolerance:.3g} was promised: take a lower bound, or append many tokens at a time."
        )
