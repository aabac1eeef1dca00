"""The four-party Merlin-Arthur protocol for disjointness, run (Alman and Song, Theorem 4.5).

Alice, Bob and Charlie hold subsets of [m] and ask whether the three have an element in common. The universe is cut in T
parts of r = m / T elements; part t of each set is encoded by a systematic code, and

    mu_i = sum_t C(alpha^t)_i C(beta^t)_i C(gamma^t)_i

is a word of C' that vanishes at the first r places exactly if the sets are disjoint. Merlin sends a word that is
supposed to be mu; all toss a place i*; Bob and Charlie send their symbols there, of all T parts; Alice accepts if the
word is in C', vanishes at the first r places, and has at i* the value that the symbols give.

Disjoint sets: with the true mu she always accepts. Otherwise any word that she may accept differs from mu, so agrees
with it in at most 3 (r - 1) of N places. The code is Reed-Solomon's with N = 6 (r - 1), which makes that 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.hardness.reed_solomon import ReedSolomon, Word, next_prime

Bits = tuple[int, ...]
"""A subset of the universe: the membership of each element."""


@dataclass(frozen=True)
class Bill:
    """What a run costs, in bits: a symbol of F_p takes ceil(log2 p), the coins ceil(log2 N).

    `merlin` is the whole word, as printed. `merlin_free` is what he need say: a word of C' that vanishes at the first r
    places has 2 (r - 1) free symbols.
    """

    merlin: int
    merlin_free: int
    coins: int
    bob: int
    charlie: int


@dataclass(frozen=True)
class Transcript:
    """One run: Merlin's word, the place tossed, the two messages, and Alice's answer."""

    merlin: Word
    place: int
    bob: Word
    charlie: Word
    accepts: bool


@dataclass(frozen=True)
class Protocol:
    """The protocol for a universe of m elements in T parts; `length` is the code's N, `p` its prime.

    Without them the shortest code of soundness 1/2 is taken, and the least prime: at least N, and above T, so that a
    sum of T bits vanishes only if all of them do.

    >>> protocol = Protocol(m=4, parts=2)
    >>> protocol.r, protocol.length, protocol.p, str(protocol.soundness_bound)
    (2, 6, 7, '1/2')
    >>> alpha, beta, gamma = (1, 1, 0, 0), (0, 1, 1, 0), (1, 0, 1, 1)
    >>> protocol.acceptance(alpha, beta, gamma, protocol.honest(alpha, beta, gamma))
    Fraction(1, 1)
    """

    m: int
    parts: int
    length: int = 0
    p: int = 0

    def __post_init__(self) -> None:
        whole("m", self.m, low=1)
        whole("parts", self.parts, low=1, high=self.m)
        if self.length == 0:
            object.__setattr__(self, "length", max(self.r, 6 * (self.r - 1)))
        if self.p == 0:
            object.__setattr__(self, "p", next_prime(max(self.length, self.parts + 1)))
        if self.p <= self.parts:
            raise ArgumentError("p", expected=f"a prime above the {self.parts} parts", got=self.p)
        ReedSolomon(self.r, self.length, self.p)

    @property
    def r(self) -> int:
        """Elements of a part; the last part is filled up with elements that nobody has."""
        return -(-self.m // self.parts)

    @cached_property
    def code(self) -> ReedSolomon:
        return ReedSolomon(self.r, self.length, self.p)

    @property
    def soundness_bound(self) -> Fraction:
        """3 (r - 1) / N, at most 1: Alice accepts sets that meet with no larger probability, whatever Merlin says."""
        return min(Fraction(1), Fraction(self.code.product_degree, self.length))

    @property
    def bill(self) -> Bill:
        symbol, r = (self.p - 1).bit_length(), self.r
        said = self.parts * symbol
        return Bill(self.length * symbol, 2 * (r - 1) * symbol, (self.length - 1).bit_length(), said, said)

    def encode(self, members: Bits) -> tuple[Word, ...]:
        """C of each part of a set: T words."""
        if len(members) != self.m or not set(members) <= {0, 1}:
            raise ArgumentError("members", expected=f"{self.m} zeros and ones", got=members)
        full = (*members, *(0,) * (self.parts * self.r - self.m))
        return tuple(self.code.encode(tuple(full[t * self.r : (t + 1) * self.r])) for t in range(self.parts))

    def symbols(self, members: Bits, place: int) -> Word:
        """What Bob or Charlie sends: the symbols of all parts at the place."""
        return tuple(word[place] for word in self.encode(members))

    def honest(self, alpha: Bits, beta: Bits, gamma: Bits) -> Word:
        """mu, whether the sets are disjoint or not."""
        words = tuple(zip(self.encode(alpha), self.encode(beta), self.encode(gamma), strict=True))
        return tuple(sum(a[i] * b[i] * c[i] for a, b, c in words) % self.p for i in range(self.length))

    def admissible(self, word: Word) -> bool:
        """Whether Alice may accept Merlin's word at all: in C', and zero at the first r places."""
        return not any(word[: self.r]) and self.code.is_product_word(word)

    def run(self, alpha: Bits, beta: Bits, gamma: Bits, merlin: Word, place: int) -> Transcript:
        """One run with the given coins.

        >>> Protocol(4, 2).run((1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0), (0,) * 6, 3)
        Transcript(merlin=(0, 0, 0, 0, 0, 0), place=3, bob=(5, 0), charlie=(5, 0), accepts=False)
        """
        whole("place", place, low=0, high=self.length - 1)
        own, bob, charlie = (self.symbols(members, place) for members in (alpha, beta, gamma))
        value = sum(a * b * c for a, b, c in zip(own, bob, charlie, strict=True)) % self.p
        return Transcript(merlin, place, bob, charlie, self.admissible(merlin) and merlin[place] == value)

    def acceptance(self, alpha: Bits, beta: Bits, gamma: Bits, merlin: Word) -> Fraction:
        """The probability that Alice accepts, over all coins: exact."""
        accepted = sum(self.run(alpha, beta, gamma, merlin, place).accepts for place in range(self.length))
        return Fraction(accepted, self.length)
