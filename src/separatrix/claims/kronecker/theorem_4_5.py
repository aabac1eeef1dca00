"""Theorem 4.5 of Alman and Song: the four-party protocol for disjointness, with the codes of `theorem_4_4`."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from separatrix.claims.kronecker.theorem_4_4 import DRAWS, PRINTED_DISTANCE
from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, Rank, claim, holds_if
from separatrix.hardness.cheating_merlin import best_cheat
from separatrix.hardness.protocol import Protocol
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.protocol")
def soundness(m: int, parts: int, length: int, seed: int) -> dict[str, Any]:
    """Acceptance, over all coins, of disjoint sets with the truth, and of sets that meet with Merlin's best lie.

    `worst` is over one common element alone and over random sets, `typical` the mean over the random ones.
    """
    protocol = Protocol(m, parts, length)
    draw = random.Random(seed)
    honest = []
    for _ in range(DRAWS):
        sets = _sets(draw, m, common=False)
        honest.append(protocol.acceptance(*sets, protocol.honest(*sets)))
    single = (1, *(0,) * (m - 1))
    lies = [best_cheat(protocol, *_sets(draw, m, common=True)).acceptance for _ in range(DRAWS)]
    worst = max(best_cheat(protocol, single, single, single).acceptance, *lies)
    bill = protocol.bill
    return {
        "r": protocol.r,
        "completeness": str(min(honest)),
        "worst": str(worst),
        "typical": float(sum(lies) / len(lies)),
        "bound": str(protocol.soundness_bound),
        "distance": str(Fraction(protocol.code.product_distance, length)),
        "field": protocol.p,
        "merlin_bits": bill.merlin,
        "coins": bill.coins,
        "bob_bits": bill.bob,
    }


def _sets(draw: random.Random, m: int, *, common: bool) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Three random sets, without a common element or with at least one and about half of the others."""
    columns = [draw.choice([(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0), (0, 1, 0)]) for _ in range(m)]
    if common:
        columns = [(1, 1, 1) if draw.random() < 0.5 else column for column in columns]
        columns[draw.randrange(m)] = (1, 1, 1)
    alpha, beta, gamma = zip(*columns, strict=True)
    return alpha, beta, gamma


def _soundness_cells() -> Iterator[Cell]:
    for m, parts, lengths in (
        (4, 2, (3, 4, 5, 6, 8, 10, 12)),
        (6, 2, (5, 7, 8, 9, 10, 12, 15, 18)),
        (8, 2, (8, 10, 11, 12, 14, 18)),
    ):
        for length in lengths:
            yield soundness.cell(seed=0, m=m, parts=parts, length=length)


@claim(
    paper="kronecker",
    where="Theorem 4.5",
    says="There is a four-party protocol for disjointness in which Alice always accepts disjoint sets, and accepts "
    "sets that meet with probability at most $1/2$, whatever Merlin sends.",
    cells=_soundness_cells,
    figures=("protocol_soundness",),
    errata=(
        Erratum(
            printed="Alice accepts sets that meet with probability at most $1/2$, with codes of relative distance "
            "at least $0.01$ (Theorem 4.4).",
            right="The probability is at most 1 minus the relative distance of $C'$. For $1/2$ the distance must be "
            "$1/2$; or, at the distance $0.01$, Alice must check Merlin's word at 69 places that are drawn "
            "independently.",
            why=r"A word that Alice may accept and $\mu$ are two words of $C'$, so they may agree in all places but "
            "a hundredth. We computed Merlin's best lie, and it reaches the bound. With 69 places the bound is $(1 "
            "- 0.01)^{69} < 1/2$.",
            rank=Rank.STATEMENT,
            at="Theorem 4.5, soundness",
            shown_by="a lie is accepted with more than 1/2 at a distance from 0.01 to 1/2",
        ),
    ),
    neighbours=(
        Neighbour("at most 1/2 from a distance of 0.01 on, as printed", {"distance": PRINTED_DISTANCE}),
        Neighbour("with probability at most 2/5", {"most": Fraction(2, 5)}),
    ),
)
def theorem_4_5(
    found: Sequence[Found], distance: Fraction = Fraction(1, 2), most: Fraction = Fraction(1, 2)
) -> Finding:
    """Complete always; sound to 1/2 wherever the distance is 1/2; and beaten wherever it lies between 0.01 and 1/2."""
    names = ("completeness", "worst", "distance")
    rows = [{name: Fraction(one.result[name]) for name in names} for one in found]
    incomplete = sum(row["completeness"] != 1 for row in rows)
    beyond = sum(row["worst"] > 1 - row["distance"] for row in rows)
    reached = sum(row["worst"] == 1 - row["distance"] for row in rows)
    far = [row for row in rows if row["distance"] >= distance]
    near = [row for row in rows if PRINTED_DISTANCE <= row["distance"] < Fraction(1, 2)]
    unsound = sum(row["worst"] > most for row in far)
    printed = sum(row["worst"] > Fraction(1, 2) for row in near)
    repeats = math.ceil(math.log(0.5) / math.log(1 - float(PRINTED_DISTANCE)))
    numbers: dict[str, float | str] = {
        "cells where disjoint sets are not always accepted": incomplete,
        "cells where a lie beats 1 - distance": beyond,
        "cells where Merlin's best lie reaches 1 - distance": f"{reached} of {len(rows)}",
        "distance >= 1/2, accepted with more than 1/2": f"{unsound} of {len(far)}",
        "distance from 0.01 to 1/2, accepted with more than 1/2": f"{printed} of {len(near)}",
        "places to check at distance 0.01": repeats,
        "bits at m = 8, T = 2, N = 18": "Merlin {merlin_bits}, Bob and Charlie {bob_bits} each, coins {coins}".format(
            **found[-1].result
        ),
    }
    shows = {"a lie is accepted with more than 1/2 at a distance from 0.01 to 1/2": printed > 0}
    return holds_if(not (incomplete or beyond or unsound), numbers, shows=shows)
