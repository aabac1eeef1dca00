"""Lemma D.3 of Alman and Song: how large scores are.

The matrices have integer entries, so every comparison is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from separatrix.attention.reference import tensor_scores
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment


def uniform(generator: torch.Generator, largest: int, *shape: int) -> Tensor:
    return torch.randint(-largest, largest + 1, shape, generator=generator)


@experiment(version=1, name="kronecker.lemma_d3")
def largest_score(
    n: int, d: int, bound: int, entries: Literal["uniform", "corners", "aligned"], seed: int
) -> dict[str, float | int]:
    """Return the largest |<Q_i, K_1j, K_2l>| / (d B^3) of integer matrices with entries up to B = `bound`."""
    generator = torch.Generator().manual_seed(seed)
    matrices = [uniform(generator, bound, n, d) for _ in range(3)]
    if entries == "corners":
        matrices = [torch.where(x >= 0, bound, -bound) for x in matrices]
    elif entries == "aligned":
        matrices = [torch.full_like(x, bound) for x in matrices]
    Q, K1, K2 = matrices
    T = tensor_scores(Q, [K1, K2], 1)
    largest = int(T.abs().max())
    return {
        "entries": T.numel(),
        "violations": int((T.abs() > d * bound**3).sum()),
        "largest": largest / d,
        "ratio": largest / (d * bound**3),
    }


@claim(
    where="Lemma D.3",
    says=r"If no entry of $Q$, $K_1$ and $K_2$ exceeds $B \ge 1$ in magnitude, no score "
    r"$\langle q, k_1, k_2 \rangle / d$ exceeds $B^3$.",
    cells=cell_grid(
        largest_score,
        {"bound": (1, 2, 4, 8, 16, 64), "d": (1, 3, 8), "entries": ("uniform", "corners", "aligned")},
        n=12,
    ),
    figures=("score_bound",),
    proof="How large scores are",
    neighbours=(
        Neighbour("no score exceeds $B^2$", {"power": 2}),
        Neighbour("no score exceeds $0.99 B^3$", {"share": 0.99}),
    ),
)
def lemma_d_3(cells: Sequence[CellResult], power: int = 3, share: float = 1.0) -> Finding:
    """Check that no score exceeds share B^power, at random integers up to B and at corners of the cube."""
    violations = sum(cell.result["violations"] for cell in cells)
    violations += sum(cell.result["largest"] > share * cell.parameters["bound"] ** power for cell in cells)
    tight = max(cell.result["ratio"] for cell in cells)
    return holds_if(
        not violations,
        {
            "scores compared": sum(cell.result["entries"] for cell in cells),
            "scores above B^3": violations,
            "largest score / B^3": tight,
        },
        note="Equality is reached, so no smaller power of B is enough." if tight == 1 else "",
    )
