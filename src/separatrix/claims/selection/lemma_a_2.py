"""Lemma A.2 of Wang, Wei, Hsu and Lee: how wide random signs must be for restricted isometry.

The constant delta of an encoding is exact, by enumeration of all sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from separatrix.claims.ledger import Finding, Found, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import random_signs
from separatrix.selection.isometry import restricted_isometry


@experiment(version=1, name="selection.isometric_width")
def isometric_width(T: int, q: int, delta: float, draws: int, seed: int) -> dict[str, float | int | None]:
    """The least C of a grid for which one of `draws` sign matrices of width C q log T / delta^2 has the property."""
    source = torch.Generator().manual_seed(seed)
    C = 0.5
    while C <= 32:
        width = math.ceil(C * q * math.log(T) / delta**2)
        for tried in range(1, draws + 1):
            found = restricted_isometry(random_signs(T, width, source).double() / math.sqrt(width), q)
            if found.exact and found.upper <= delta:
                return {"C": C, "width": width, "tried": tried, "delta": found.upper}
        C *= 2**0.5
    return {"C": None, "width": None, "tried": None, "delta": None}


def _width_cells() -> Iterator[Cell]:
    for T, q, delta in ((6, 1, 0.4), (12, 1, 0.4), (24, 1, 0.4), (24, 1, 0.1), (8, 2, 0.4), (12, 2, 0.4), (12, 2, 0.2)):
        yield isometric_width.cell(seed=0, T=T, q=q, delta=delta, draws=3)


@claim(
    paper="selection",
    where="Lemma A.2",
    says=r"For some absolute constant $C$, random signs of width $C q \log T / \delta^2$ have the "
    r"$(q, \delta)$-restricted isometry and orthogonality property with positive probability.",
    cells=_width_cells,
    neighbours=(Neighbour("$C = 2.5$ is enough", {"most": 2.5}),),
)
def lemma_a_2(found: Sequence[Found], most: float = 32.0) -> Finding:
    """No finite number of sizes shows that a constant is absolute; each size shows one that does there."""
    constants = [one.result["C"] for one in found]
    if any(C is None or most < C for C in constants):
        return Finding(
            Verdict.UNDECIDED, {"sizes": len(found)}, f"At some size no matrix was found up to C = {most:g}."
        )
    numbers: dict[str, float | str] = {
        "sizes, each with a matrix found": len(found),
        "smallest C that sufficed": min(constants),
        "largest C that sufficed": max(constants),
    }
    return Finding(Verdict.ILLUSTRATED, numbers, "A C that is right for all sizes is a matter of proof.")
