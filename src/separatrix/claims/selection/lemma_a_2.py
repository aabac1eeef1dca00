"""Lemma A.2 of Wang, Wei, Hsu and Lee: the width at which random signs have restricted isometry.

The constant delta of an encoding is exact, by enumeration of all sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import random_signs
from separatrix.selection.isometry import restricted_isometry


@experiment(version=1, name="selection.isometric_width")
def isometric_width(T: int, q: int, delta: float, draws: int, seed: int) -> dict[str, float | int | None]:
    """Return the least C for which one of `draws` sign matrices of width C q log T / delta^2 has the property."""
    source = torch.Generator().manual_seed(seed)
    C = 0.5
    while C <= 32:
        width = math.ceil(C * q * math.log(T) / delta**2)
        for tried in range(1, draws + 1):
            isometry = restricted_isometry(random_signs(T, width, source).double() / math.sqrt(width), q)
            if isometry.exact and isometry.upper <= delta:
                return {"C": C, "width": width, "tried": tried, "delta": isometry.upper}
        C *= 2**0.5
    return {"C": None, "width": None, "tried": None, "delta": None}


@claim(
    where="Lemma A.2",
    says=r"For some absolute constant $C$, matrices of random signs of width $C q \log T / \delta^2$ have the $(q, "
    r"\delta)$-restricted isometry and orthogonality property with positive probability.",
    cells=cell_grid(
        isometric_width,
        {"T q delta": ((6, 1, 0.4), (12, 1, 0.4), (24, 1, 0.4), (24, 1, 0.1), (8, 2, 0.4), (12, 2, 0.4), (12, 2, 0.2))},
        draws=3,
    ),
    neighbours=(Neighbour("$C = 2.5$ is enough", {"most": 2.5}),),
)
def lemma_a_2(cells: Sequence[CellResult], most: float = 32.0) -> Finding:
    """Return the constants that suffice at each size; finitely many sizes cannot show that a constant is absolute."""
    constants = [cell.result["C"] for cell in cells]
    if any(C is None or most < C for C in constants):
        return Finding(
            Verdict.UNDECIDED, {"sizes": len(cells)}, f"At some size no matrix up to C = {most:g} has the property."
        )
    numbers: dict[str, float | str] = {
        "sizes, each with a matrix found": len(cells),
        "smallest C that sufficed": min(constants),
        "largest C that sufficed": max(constants),
    }
    return Finding(Verdict.ILLUSTRATED, numbers, "Only a proof can show that one C is right for all sizes.")
