"""Theorem 4.4 of Alman and Song: the codes of the protocol.

Reed-Solomon codes stand in for the algebraic-geometry codes of the paper: they are systematic, and triple products lie
in a longer code, but the field grows with the length.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

from separatrix.claims.ledger import Finding, Found, Neighbour, Verdict, claim
from separatrix.hardness.reed_solomon import ReedSolomon, next_prime
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

DRAWS = 6
"""Random triples of sets a cell, of each kind."""


PRINTED_DISTANCE = Fraction(1, 100)
"""The relative distance that Theorem 4.4 promises."""


@experiment(version=1, name="kronecker.codes")
def code(r: int, stretch: int, seed: int) -> dict[str, float]:
    """The four properties of Theorem 4.4 for the code of length `stretch` r, on random messages."""
    length = stretch * r
    made = ReedSolomon(r, length, next_prime(length))
    draw = random.Random(seed)
    messages = [tuple(draw.randrange(made.p) for _ in range(r)) for _ in range(3 * DRAWS)]
    words = [made.encode(message) for message in messages]
    triples = [words[at : at + 3] for at in range(0, len(words), 3)]
    products = [tuple(math.prod(symbols) % made.p for symbols in zip(*triple, strict=True)) for triple in triples]
    distances = [
        sum(x != y for x, y in zip(one, other, strict=True))
        for at, one in enumerate(products)
        for other in products[:at]
        if one != other
    ]
    return {
        "not_systematic": sum(word[:r] != message for word, message in zip(words, messages, strict=True)),
        "not_closed": sum(not made.is_product_word(product) for product in products),
        "too_near": sum(distance < made.product_distance for distance in distances),
        "rate": r / length,
        "distance": made.product_distance / length,
        "field": made.p,
    }


def _code_cells() -> Iterator[Cell]:
    for r in (1, 2, 4, 8, 16):
        for stretch in (4, 6):
            yield code.cell(seed=0, r=r, stretch=stretch)


@claim(
    paper="kronecker",
    where="Theorem 4.4",
    says="There are systematic codes over a fixed field, of constant rate and distance, whose triple products lie in "
    "another such code; both are encoded and checked in polynomial time.",
    cells=_code_cells,
    neighbours=(Neighbour("rate and distance are both at least 1/5", {"promised": Fraction(1, 5)}),),
)
def theorem_4_4(found: Sequence[Found], promised: Fraction = PRINTED_DISTANCE) -> Finding:
    """Reed-Solomon codes have all four properties but the fixed field, so the theorem is illustrated by them."""
    broken = sum(one.result[name] for one in found for name in ("not_systematic", "not_closed", "too_near"))
    least = min(min(one.result["rate"], one.result["distance"]) for one in found)
    fields = sorted({int(one.result["field"]) for one in found})
    numbers: dict[str, float | str] = {
        "words that break a property": broken,
        "least relative rate or distance": least,
        "fields": f"F_{fields[0]} to F_{fields[-1]}, growing with the length",
    }
    if broken or least < promised:
        return Finding(Verdict.UNDECIDED, numbers, "The stand-in codes do not have the properties.")
    note = (
        "The theorem is cited from work on algebraic-geometry codes, which are not built here. What ran: Reed-Solomon "
        "codes, which have the properties except that the field grows with the length; with them every message of the "
        "protocol is longer by log N / log T."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
