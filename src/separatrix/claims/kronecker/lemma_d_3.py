"""Lemma D.3 of Alman and Song: how large scores are.

Matrices have integer entries, so nothing is rounded, and "at most" means at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from separatrix.attention.reference import tensor_scores
from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


def uniform(generator: torch.Generator, largest: int, *shape: int) -> Tensor:
    return torch.randint(-largest, largest + 1, shape, generator=generator)


@experiment(version=1, name="kronecker.lemma_d3")
def largest_score(
    n: int, d: int, bound: int, entries: Literal["uniform", "corners", "aligned"], seed: int
) -> dict[str, float | int]:
    """Lemma D.3: the largest |<Q_i, K_1j, K_2l>| over d B^3, of integer matrices with entries up to B = `bound`."""
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


def _score_cells() -> Iterator[Cell]:
    for bound in (1, 2, 4, 8, 16, 64):
        for d in (1, 3, 8):
            for entries in ("uniform", "corners", "aligned"):
                yield largest_score.cell(seed=0, n=12, d=d, bound=bound, entries=entries)


@claim(
    paper="kronecker",
    where="Lemma D.3",
    says=r"If no entry of $Q$, $K_1$ and $K_2$ exceeds $B \ge 1$ in magnitude, no score "
    r"$\langle q, k_1, k_2 \rangle / d$ exceeds $B^3$.",
    cells=_score_cells,
    figures=("score_bound",),
    proof="How large scores are",
    neighbours=(
        Neighbour("no score exceeds $B^2$", {"power": 2}),
        Neighbour("no score exceeds $0.99 B^3$", {"share": 0.99}),
    ),
)
def lemma_d_3(found: Sequence[Found], power: int = 3, share: float = 1.0) -> Finding:
    """Integers up to B, drawn, at the corners of the cube and all equal to B; no score may exceed share B^power."""
    violations = sum(one.result["violations"] for one in found)
    violations += sum(one.result["largest"] > share * one.parameters["bound"] ** power for one in found)
    tight = max(one.result["ratio"] for one in found)
    return holds_if(
        not violations,
        {
            "scores compared": sum(one.result["entries"] for one in found),
            "scores above B^3": violations,
            "largest score / B^3": tight,
        },
        note="Equality is reached, so no smaller power of B is enough." if tight == 1 else "",
    )
