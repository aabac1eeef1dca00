"""The best strategy of a cheating Merlin against the protocol of Theorem 4.5, found by search, in addition to its
bound.

The true mu has degree up to 3 (r - 1) and is nonzero at one or more of the first r places. Merlin's word vanishes at
these places, so it agrees with mu at the z of them where mu is zero. The difference has 2 (r - 1) free symbols: Merlin
may choose this number of further places of agreement, and the word is the polynomial through them. Every word agrees
with mu at fewer further places, or is determined by 2 (r - 1) places of agreement, so trying all subsets finds the best
word.

    z + 2 (r - 1)  <=  best agreement  <=  3 (r - 1)    (if N is long enough)

Both sides are equal if mu is nonzero at exactly one of the first r places, z = r - 1: Merlin then reaches the bound 3
(r - 1) / N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

from separatrix.errors import ArgumentError
from separatrix.hardness.protocol import Bits, Protocol
from separatrix.hardness.reed_solomon import Word, evaluate

LARGEST_SEARCH = 200_000
"""The largest number of subsets or words that a search tries."""


@dataclass(frozen=True)
class Cheat:
    """Merlin's best word and the probability with which Alice accepts it."""

    word: Word
    acceptance: Fraction


def best_cheat(protocol: Protocol, alpha: Bits, beta: Bits, gamma: Bits) -> Cheat:
    """The word that Alice accepts with the largest probability, for sets that are not disjoint.

    It is found by interpolation through every subset of 2 (r - 1) places after the first r.

    Args:
        protocol: the protocol.
        alpha: Alice's set.
        beta: Bob's set.
        gamma: Charlie's set.

    Raises:
        ArgumentError: if the sets are disjoint, or if there are more than `LARGEST_SEARCH` subsets.

    Example:
        >>> best = best_cheat(Protocol(4, 2), (1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0))
        >>> best.acceptance, Protocol(4, 2).admissible(best.word)
        (Fraction(1, 2), True)
    """
    mu = protocol.honest(alpha, beta, gamma)
    first, later = tuple(range(protocol.r)), range(protocol.r, protocol.length)
    if not any(mu[: protocol.r]):
        raise ArgumentError("alpha, beta, gamma", expected="sets with a common element", got="disjoint ones")
    free = min(2 * (protocol.r - 1), len(later))
    check_search("length", math.comb(len(later), free), f"{free} of {len(later)} places")
    points = tuple(range(protocol.length))
    best: tuple[int, Word] = (-1, ())
    for chosen in combinations(later, free):
        values = (*(0,) * protocol.r, *(mu[place] for place in chosen))
        word = evaluate((*first, *chosen), values, points, protocol.p)
        best = max(best, (agreement(mu, word), word))
    return Cheat(best[1], Fraction(best[0], protocol.length))


def admissible_words(protocol: Protocol) -> list[Word]:
    """Every word of C' that vanishes at the first r places.

    >>> len(admissible_words(Protocol(4, 2)))
    49
    """
    known = min(protocol.code.product_degree + 1, protocol.length)
    check_search("protocol", protocol.p ** (known - protocol.r), "Merlin's words")
    at, points = tuple(range(known)), tuple(range(protocol.length))
    zeros = (0,) * protocol.r
    tails = product(range(protocol.p), repeat=known - protocol.r)
    return [evaluate(at, (*zeros, *tail), points, protocol.p) for tail in tails]


def agreement(first: Word, second: Word) -> int:
    """The number of places in which two words agree."""
    return sum(x == y for x, y in zip(first, second, strict=True))


def check_search(argument: str, tries: int, what: str) -> None:
    """Raise an error that names `argument` if a search would take more than `LARGEST_SEARCH` tries."""
    if tries > LARGEST_SEARCH:
        expected = f"a search of at most {LARGEST_SEARCH} tries (`Protocol.soundness_bound` has no limit)"
        raise ArgumentError(argument, expected=expected, got=f"{tries} ({what})")
