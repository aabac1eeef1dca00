"""Theorem 4.4 of Alman and Song: the codes of the protocol.

Reed-Solomon codes stand in for the algebraic-geometry codes of the paper: they are systematic, and triple products lie
in a longer code, but the field grows with the length.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim
from separatrix.hardness.reed_solomon import ReedSolomon, next_prime
from separatrix.lab.registry import experiment

DRAWS = 6
"""The number of random triples of sets of each kind per cell."""

PRINTED_DISTANCE = Fraction(1, 100)
"""The relative distance in Theorem 4.4."""


@experiment(version=1, name="kronecker.codes")
def code(r: int, stretch: int, seed: int) -> dict[str, float]:
    """Check the four properties of Theorem 4.4 for the code of length `stretch` r, on random messages."""
    length = stretch * r
    code = ReedSolomon(r, length, next_prime(length))
    draw = random.Random(seed)
    messages = [tuple(draw.randrange(code.p) for _ in range(r)) for _ in range(3 * DRAWS)]
    words = [code.encode(message) for message in messages]
    triples = [words[at : at + 3] for at in range(0, len(words), 3)]
    products = [tuple(math.prod(symbols) % code.p for symbols in zip(*triple, strict=True)) for triple in triples]
    distances = [
        sum(x != y for x, y in zip(product, earlier, strict=True))
        for at, product in enumerate(products)
        for earlier in products[:at]
        if product != earlier
    ]
    return {
        "not_systematic": sum(word[:r] != message for word, message in zip(words, messages, strict=True)),
        "not_closed": sum(not code.is_product_word(product) for product in products),
        "too_near": sum(distance < code.product_distance for distance in distances),
        "rate": r / length,
        "distance": code.product_distance / length,
        "field": code.p,
    }


@claim(
    where="Theorem 4.4",
    says="There are systematic codes over a fixed field, of constant rate and distance, whose triple products lie in "
    "another such code; both are encoded and checked in polynomial time.",
    cells=cell_grid(code, {"r": (1, 2, 4, 8, 16), "stretch": (4, 6)}),
    neighbours=(Neighbour("rate and distance are both at least 1/5", {"promised": Fraction(1, 5)}),),
)
def theorem_4_4(cells: Sequence[CellResult], promised: Fraction = PRINTED_DISTANCE) -> Finding:
    """Return *illustrated* if Reed-Solomon codes have all four properties except the fixed field."""
    broken = sum(cell.result[name] for cell in cells for name in ("not_systematic", "not_closed", "too_near"))
    least = min(min(cell.result["rate"], cell.result["distance"]) for cell in cells)
    fields = sorted({int(cell.result["field"]) for cell in cells})
    numbers: dict[str, float | str] = {
        "words that break a property": broken,
        "least relative rate or distance": least,
        "fields": f"F_{fields[0]} to F_{fields[-1]}, growing with the length",
    }
    if broken or least < promised:
        return Finding(Verdict.UNDECIDED, numbers, "The stand-in codes do not have the properties.")
    note = (
        "The theorem is cited from work on algebraic-geometry codes, which are not built here. We ran Reed-Solomon "
        "codes, which have the properties except that the field grows with the length; with them every message of "
        "the protocol is longer by log N / log T."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
