"""Reed-Solomon codes over a prime field: the two codes of the protocol (Alman and Song, Theorem 4.4).

The words of C are the values at the points 0, ..., N - 1 of F_p of the polynomials of degree below r, and those of C'
are the values of the polynomials of degree up to 3 (r - 1).

    systematic:  the values at the first r points are the message;
    closed:      the product of three words of C is a word of C', whose distance is N - 3 (r - 1);
    rates:       r / N and (3 r - 2) / N.

The paper uses algebraic-geometry codes, whose field stays fixed while r grows. Here p >= N, so a symbol takes log N
bits instead of log T, and every message of the protocol is longer by the factor log N / log T.
"""

from __future__ import annotations

from dataclasses import dataclass

from separatrix.checks import whole
from separatrix.errors import ArgumentError

Word = tuple[int, ...]


def is_prime(number: int) -> bool:
    """Whether a number is prime, by trial division.

    >>> [number for number in range(20) if is_prime(number)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    if number < 2:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True


def next_prime(least: int) -> int:
    """The smallest prime that is at least `least`."""
    while not is_prime(least):
        least += 1
    return least


@dataclass(frozen=True)
class ReedSolomon:
    """The code C of length N over F_p, for messages of r symbols.

    Args:
        r: the number of symbols of a message.
        length: N, at least r.
        p: a prime that is at least N.

    Example:
        >>> code = ReedSolomon(r=2, length=6, p=7)
        >>> code.encode((1, 3))  # 1 + 2 x
        (1, 3, 5, 0, 2, 4)
    """

    r: int
    length: int
    p: int

    def __post_init__(self) -> None:
        whole("r", self.r, low=1)
        if self.length < self.r:
            raise ArgumentError("length", expected=f"at least the {self.r} symbols of a message", got=self.length)
        if self.p < self.length or not is_prime(self.p):
            raise ArgumentError("p", expected=f"a prime of at least the length {self.length}", got=self.p)

    @property
    def product_degree(self) -> int:
        """The largest degree 3 (r - 1) of a word of C'."""
        return 3 * (self.r - 1)

    @property
    def product_distance(self) -> int:
        """The smallest number of places in which two words of C' differ; 1 if C' is all of F_p^N."""
        return max(1, self.length - self.product_degree)

    def encode(self, message: Word) -> Word:
        """The word of C that begins with the message."""
        if len(message) != self.r:
            raise ArgumentError("message", expected=f"{self.r} symbols", got=len(message))
        return evaluate(tuple(range(self.r)), message, tuple(range(self.length)), self.p)

    def is_product_word(self, word: Word) -> bool:
        """Whether a word of length N is in C': it must be the word of C' that is determined by its first 3 r - 2
        symbols.

        >>> code = ReedSolomon(r=2, length=6, p=7)
        >>> code.is_product_word((0, 1, 1, 6, 1, 6)), code.is_product_word((0, 0, 0, 0, 0, 1))
        (True, False)
        """
        if len(word) != self.length or not all(0 <= symbol < self.p for symbol in word):
            return False
        known = min(self.product_degree + 1, self.length)
        return evaluate(tuple(range(known)), word[:known], tuple(range(self.length)), self.p) == word


def evaluate(at: Word, values: Word, points: Word, p: int) -> Word:
    """Values of the polynomial of degree below len(at) that interpolates given values, by Lagrange's formula modulo p.

    Args:
        at: the points at which the polynomial is known.
        values: the values of the polynomial at these points.
        points: the points at which the polynomial is evaluated.
        p: the prime.

    Example:
        >>> evaluate((0, 1, 2), (0, 1, 4), (3, 5), 101)
        (9, 25)
    """
    weights = []
    for i, x in enumerate(at):
        weight = 1
        for j, other_point in enumerate(at):
            if i != j:
                weight = weight * (x - other_point) % p
        weights.append(pow(weight, -1, p))
    known = dict(zip(at, values, strict=True))
    evaluated = []
    for point in points:
        if point in known:
            evaluated.append(known[point] % p)
            continue
        product = 1
        for x in at:
            product = product * (point - x) % p
        terms = (value * weight * pow(point - x, -1, p) for x, value, weight in zip(at, values, weights, strict=True))
        evaluated.append(product * sum(terms) % p)
    return tuple(evaluated)
