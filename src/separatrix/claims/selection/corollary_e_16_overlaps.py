"""Corollary E.16 of Wang, Wei, Hsu and Lee: the largest overlap that an encoding with constant delta can have.

The corollary holds for all encodings with the (q, delta)-property if and only if their overlaps are below 1. The cells
compare the formula of `separatrix.selection.worst_overlap` with an encoding that attains it, whose constant is computed
exactly by enumerating all sets, and with encodings from a random search; they also compare the overlaps of the dual
vector with their bound. docs/derivations/proofs.md has the proof of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.claims.selection.theorem_c_3 import dual_vector
from separatrix.lab.registry import experiment
from separatrix.selection.construction import overlaps
from separatrix.selection.encodings import random_signs
from separatrix.selection.isometry import restricted_isometry
from separatrix.selection.worst_overlap import dual_overlap, worst_overlap, worst_overlap_encoding


@experiment(version=1, name="selection.worst_overlap_reached")
def reached(q: int, T: int, delta: float, seed: int) -> dict[str, float]:
    """The worst encoding: its constant by enumeration, its overlap divided by the formula, and the dual vector's
    overlap."""
    E, y = worst_overlap_encoding(q, delta, T), torch.arange(q)
    isometry = restricted_isometry(E, q)
    return {
        "delta": isometry.upper if isometry.exact else math.inf,
        "overlap": float(overlaps(E, y).max()),
        "dual": _dual(E, y),
    }


@experiment(version=1, name="selection.worst_overlap_searched")
def searched(q: int, steps: int, seed: int) -> dict[str, float]:
    """The largest overlap divided by the formula at the encoding's own constant, from a random start, by random
    steps."""
    source = torch.Generator().manual_seed(seed)

    def near(E: Tensor, size: float) -> Tensor:
        moved = E + size * torch.randn(q + 1, q + 1, dtype=torch.float64, generator=source)
        scaled: Tensor = moved / moved.norm(dim=1, keepdim=True)
        return scaled

    def share(E: Tensor) -> float:
        """The largest overlap divided by the formula; -1 if delta is near 0 or outside of the range of the proof."""
        delta = restricted_isometry(E, q).upper
        most = (q - 2) / (2 * (q - 1)) if q > 2 else 0.5
        return float(overlaps(E, torch.arange(q)).max()) / worst_overlap(q, delta) if 0.02 < delta < most else -1.0

    E, size = near(torch.eye(q + 1, dtype=torch.float64), 0.05), 0.03
    best = share(E)
    for _ in range(steps):
        trial = near(E, size)
        value = share(trial)
        if value > best:
            best, E, size = value, trial, min(1.5 * size, 0.1)
        else:
            size = max(0.97 * size, 1e-6)
    return {"share": best}


@experiment(version=1, name="selection.dual_overlap")
def dual_of_signs(T: int, q: int, width: int, seed: int) -> dict[str, float]:
    """Random signs: their constant by enumeration, and the dual vector's largest overlap over all subsets."""
    E = random_signs(T, width, torch.Generator().manual_seed(seed)).double() / math.sqrt(width)
    isometry = restricted_isometry(E, q)
    every = torch.combinations(torch.arange(T), q)
    return {"delta": isometry.upper if isometry.exact else math.inf, "dual": max(_dual(E, y) for y in every)}


def _dual(E: Tensor, y: Tensor) -> float:
    return float((E @ dual_vector(E, y)).index_fill(0, y, 0.0).abs().max())


FORMS: Mapping[str, Callable[[int, float], float]] = {
    "exact": worst_overlap,
    "orthogonal": lambda q, delta: delta * math.sqrt(q),
    "bound": lambda q, delta: delta * math.sqrt(q) / (1 - delta),
}


@claim(
    where="Corollary E.16",
    part="overlaps",
    says=r"The corollary holds for every encoding by unit vectors with the $(q, \delta)$-property if and only if "
    r"their largest overlap is below 1, which is exactly $\frac{\delta \sqrt{q}}{1 - a}$, $a = \frac{\delta (q - "
    r"1)}{q (q - 2)}$, for $q \ge 3$; $a = \delta / \sqrt{2}$ for $q = 2$. With the dual vector as the code it is "
    r"at most $\frac{\delta (1 - 2 \delta)}{(1 - \delta)(1 - 3 \delta)}$ for every $q$.",
    cells=joined(
        cell_grid(reached, {"q T": ((1, 5), (2, 9), (3, 9), (4, 8), (6, 9), (9, 11)), "delta": (0.0999, 0.2)}),
        cell_grid(searched, {"q steps": ((2, 200), (3, 400))}),
        cell_grid(dual_of_signs, {"T q width": ((9, 2, 256), (8, 3, 1024))}),
    ),
    proof="The largest overlap with a subset's code",
    neighbours=(
        Neighbour(r"it is exactly $\delta \sqrt{q}$", {"form": "orthogonal"}),
        Neighbour(r"it is exactly $\frac{\delta \sqrt{q}}{1 - \delta}$, the bound of Lemma A.3", {"form": "bound"}),
        Neighbour("it is a hundredth smaller", {"factor": 0.99}),
        Neighbour(
            r"with $E_y (E_y^\top E_y)^{-1} \mathbf{1}$ it is at most that of the dual vector", {"code": "overlap"}
        ),
    ),
)
def corollary_e_16_overlaps(
    cells: Sequence[CellResult], form: str = "exact", factor: float = 1.0, code: str = "dual"
) -> Finding:
    """Check that an encoding with this constant attains the formula, up to rounding, and that no search exceeds it."""
    attained = [cell for cell in cells if "overlap" in cell.result]
    constants = max(abs(cell.result["delta"] / cell.parameters["delta"] - 1) for cell in attained)
    apart = max(
        abs(cell.result["overlap"] / (factor * FORMS[form](cell.parameters["q"], cell.parameters["delta"])) - 1)
        for cell in attained
    )
    beyond = max(cell.result["share"] / factor for cell in cells if "share" in cell.result)
    duals = max(cell.result[code] / dual_overlap(cell.result["delta"]) for cell in cells if code in cell.result)
    most = max(q for q in range(3, 200) if worst_overlap(q, 0.1) < 1)
    numbers: dict[str, float | str] = {
        "encodings that reach it": len(attained),
        "largest |constant / delta - 1|, by enumeration": constants,
        "largest |overlap / formula - 1|": apart,
        "largest overlap / formula that a search finds": beyond,
        "largest overlap / its bound, of the dual vector": duals,
        "the largest q whose overlaps are below 1 for all delta < 1/10": most,
    }
    held = max(constants, apart) <= 1e-9 and beyond <= 1 + 1e-9 and duals <= 1
    return holds_if(held, numbers)
