"""The record of a token stream that its certificate is computed from, in addition to the sums: the number of tokens,
their largest values, and how often they are rounded when they are added to the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.bounds import SMALLEST_SCALE
from separatrix.attention.near_linear.bounded_plan import BoundedPlan
from separatrix.errors import SeparatrixError


@dataclass
class StreamLedger:
    """The record of the tokens that were appended, with an entry for each key set.

    Attributes:
        tokens: The number of tokens, including masked ones.
        largest: The largest magnitude of a value.
        roundings: The largest number of roundings of a token.
        hidden: The number of masked tokens for each head, (order - 1, heads); None if no token was masked.
    """

    tokens: list[int]
    largest: list[float]
    roundings: list[int]
    hidden: Tensor | None = None

    @classmethod
    def empty(cls, sets: int) -> StreamLedger:
        """The record of a stream without tokens."""
        return cls([0] * sets, [0.0] * sets, [0] * sets)

    def __copy__(self) -> StreamLedger:
        """A copy of the record with new lists."""
        return StreamLedger(list(self.tokens), list(self.largest), list(self.roundings), self.hidden)

    def add(self, m: int, length: int, magnitude: float, roundings: int) -> None:
        """Record `length` tokens of set m, the largest magnitude of their values, and the new number of roundings."""
        self.tokens[m] += length
        self.largest[m] = max(self.largest[m], magnitude)
        self.roundings[m] = roundings

    def merge(self, other: StreamLedger) -> None:
        """Record the tokens of another stream, whose sums were added to these; `hidden` is unchanged."""
        self.tokens = [a + b for a, b in zip(self.tokens, other.tokens, strict=True)]
        self.largest = [max(a, b) for a, b in zip(self.largest, other.largest, strict=True)]
        self.roundings = [max(a, b) + 1 for a, b in zip(self.roundings, other.roundings, strict=True)]


def roundings_of_chunks(before: int, tokens: int, chunk: int) -> int:
    """The number of roundings of a token after more tokens were added to its set, in chunks of monomials.

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


def relative_rounding(plan: BoundedPlan, ledger: StreamLedger) -> float:
    """The relative rounding error of a sum over all tuples of tokens; infinite if the values overflow or underflow."""
    logs = [math.log2(x) for x in ledger.largest if x]
    low, high = sum(min(log, 0.0) for log in logs), sum(max(log, 0.0) for log in logs)
    if low < math.log2(SMALLEST_SCALE[torch.float64]) or high + sum(map(math.log2, filter(None, ledger.tokens))) > 1000:
        return math.inf  # products of values of several sets, or their sums, overflow or underflow
    return plan.rounding(sum(ledger.roundings))


def refuse_roundings(plan: BoundedPlan, ledger: StreamLedger) -> None:
    """Raise a `SeparatrixError` if the rounding error of the sums makes the error bound exceed the plan's tolerance."""
    error = plan.total_error(relative_rounding(plan, ledger))
    if error > plan.tolerance:
        raise SeparatrixError(
            f"state: for {list(ledger.tokens)} tokens the error bound {error:.3g} exceeds the tolerance "
            f"{plan.tolerance:.3g} (relative to the values' magnitude). Use a lower bound, or append more tokens per "
            "call."
        )
