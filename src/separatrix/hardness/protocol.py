"""The four-party Merlin-Arthur protocol for disjointness (Alman and Song, Theorem 4.5), as a program.

Alice, Bob and Charlie hold subsets of [m] and ask whether the three have an element in common. The universe is divided
into T parts of r = m / T elements; part t of each set is encoded by a systematic code, and

    mu_i = sum_t C(alpha^t)_i C(beta^t)_i C(gamma^t)_i

is a word of C' that vanishes at the first r places if and only if the sets are disjoint. Merlin sends a word that is
supposed to be mu; a place i* is drawn at random; Bob and Charlie send the symbols of all T parts at i*; Alice accepts
if the word is in C', vanishes at the first r places, and has at i* the value that follows from the symbols.

If the sets are disjoint and Merlin sends the true mu, she always accepts. If they are not disjoint, any word that she
may accept differs from mu, so it agrees with mu in at most 3 (r - 1) of the N places. The code is a Reed-Solomon code
with N = 6 (r - 1), so Alice then accepts with probability at most one half.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.hardness.reed_solomon import ReedSolomon, Word, next_prime

Bits = tuple[int, ...]
"""A subset of the universe: for each element, 1 if it is a member and 0 if not."""


@dataclass(frozen=True)
class Bill:
    """The lengths of the messages of a run, in bits; a symbol of F_p takes ceil(log2 p) bits.

    Attributes:
        merlin: Merlin's whole word, which the paper lets him send.
        merlin_free: the 2 (r - 1) symbols that determine a word of C' that vanishes at the first r places.
        coins: the random place, ceil(log2 N) bits.
        bob: Bob's symbols.
        charlie: Charlie's symbols.
    """

    merlin: int
    merlin_free: int
    coins: int
    bob: int
    charlie: int


@dataclass(frozen=True)
class Transcript:
    """The record of one run.

    Attributes:
        merlin: Merlin's word.
        place: the random place i*.
        bob: Bob's message.
        charlie: Charlie's message.
        accepts: whether Alice accepts.
    """

    merlin: Word
    place: int
    bob: Word
    charlie: Word
    accepts: bool


@dataclass(frozen=True)
class Protocol:
    """The protocol for a universe of m elements in T parts.

    Args:
        m: the number of elements of the universe.
        parts: the number T of parts.
        length: the length N of the code; 0 takes the shortest code of soundness 1/2.
        p: the prime of the code's field F_p; 0 takes the least prime that is at least N and above T, so that a sum of T
            bits vanishes only if all of them do.

    Example:
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
        """The number of elements of a part; the last part is padded with elements that are in no set."""
        return -(-self.m // self.parts)

    @cached_property
    def code(self) -> ReedSolomon:
        """The code C."""
        return ReedSolomon(self.r, self.length, self.p)

    @property
    def soundness_bound(self) -> Fraction:
        """An upper bound, min(1, 3 (r - 1) / N), on the probability that Alice accepts sets that are not disjoint."""
        return min(Fraction(1), Fraction(self.code.product_degree, self.length))

    @property
    def bill(self) -> Bill:
        """The lengths of the messages."""
        symbol, r = (self.p - 1).bit_length(), self.r
        bits = self.parts * symbol
        return Bill(self.length * symbol, 2 * (r - 1) * symbol, (self.length - 1).bit_length(), bits, bits)

    def encode(self, members: Bits) -> tuple[Word, ...]:
        """The words C(alpha^1), ..., C(alpha^T) of the parts of a set."""
        if len(members) != self.m or not set(members) <= {0, 1}:
            raise ArgumentError("members", expected=f"{self.m} zeros and ones", got=members)
        full = (*members, *(0,) * (self.parts * self.r - self.m))
        return tuple(self.code.encode(tuple(full[t * self.r : (t + 1) * self.r])) for t in range(self.parts))

    def symbols(self, members: Bits, place: int) -> Word:
        """The message of Bob or Charlie: the symbols of all parts of his set at the place."""
        return tuple(word[place] for word in self.encode(members))

    def honest(self, alpha: Bits, beta: Bits, gamma: Bits) -> Word:
        """The word mu of the three sets, whether they are disjoint or not."""
        words = tuple(zip(self.encode(alpha), self.encode(beta), self.encode(gamma), strict=True))
        return tuple(sum(a[i] * b[i] * c[i] for a, b, c in words) % self.p for i in range(self.length))

    def admissible(self, word: Word) -> bool:
        """Whether Alice may accept Merlin's word at all: whether it is in C' and zero at the first r places."""
        return not any(word[: self.r]) and self.code.is_product_word(word)

    def run(self, alpha: Bits, beta: Bits, gamma: Bits, merlin: Word, place: int) -> Transcript:
        """Run the protocol once.

        Args:
            alpha: Alice's set.
            beta: Bob's set.
            gamma: Charlie's set.
            merlin: the word that Merlin sends.
            place: the random place i*.

        Example:
            >>> Protocol(4, 2).run((1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0), (0,) * 6, 3)
            Transcript(merlin=(0, 0, 0, 0, 0, 0), place=3, bob=(5, 0), charlie=(5, 0), accepts=False)
        """
        whole("place", place, low=0, high=self.length - 1)
        own, bob, charlie = (self.symbols(members, place) for members in (alpha, beta, gamma))
        value = sum(a * b * c for a, b, c in zip(own, bob, charlie, strict=True)) % self.p
        return Transcript(merlin, place, bob, charlie, self.admissible(merlin) and merlin[place] == value)

    def acceptance(self, alpha: Bits, beta: Bits, gamma: Bits, merlin: Word) -> Fraction:
        """The exact probability that Alice accepts Merlin's word, over the random place."""
        accepted = sum(self.run(alpha, beta, gamma, merlin, place).accepts for place in range(self.length))
        return Fraction(accepted, self.length)
