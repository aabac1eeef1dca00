"""The record of a token stream that its certificate is computed from, in addition to the sums."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
