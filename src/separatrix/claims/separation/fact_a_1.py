"""Fact A.1: attention by blocks of a Kronecker product.

Identities between polynomials in the entries are tested at random integers, without rounding. Because exp is applied
entry by entry, its arguments are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.registry import experiment

_RANGE = 1024
"""The number of values of an entry: a false identity of degree 3 passes a cell with probability 3 / 1024."""


def _integers(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randint(-_RANGE // 2, _RANGE // 2, shape, generator=generator)


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1)


def _columns(x: Tensor) -> Tensor:
    return x.mT.reshape(-1)


@experiment(version=2, name="separation.tensor_trick")
def tensor_trick(n: int, d: int, seed: int) -> dict[str, int]:
    """Count the entries in which vec(A_1 X A_2^T) and (A_1 (x) A_2) vec(X) differ, with vec by rows and by columns.

    `turned` compares the blocks with the columns of A_1 X A_2^T, and `turned_sums` compares their sums.
    """
    generator = torch.Generator().manual_seed(seed)
    A1, A2 = _integers(generator, n, d), _integers(generator, n, d)
    X = _integers(generator, d, d)
    A, scores = torch.kron(A1, A2), A1 @ X @ A2.mT
    blocks = (A @ _rows(X)).reshape(n, n)
    return {
        "entries": scores.numel(),
        "by_rows": int((_rows(scores) != A @ _rows(X)).sum()),
        "by_columns": int((_columns(scores) != A @ _columns(X)).sum()),
        "blocks": int((blocks != scores).sum()),
        "sums": int((blocks.sum(1) != (A1 @ X @ A2.sum(0, keepdim=True).mT).squeeze(1)).sum()),
        "turned": int((blocks != scores.mT).sum()),
        "turned_sums": int((blocks.sum(1) != scores.sum(0)).sum()),
    }


trick_cells = cell_grid(tensor_trick, {"n d": ((2, 2), (5, 3), (3, 5), (8, 4)), "seed": range(4)})


def trick_finding(cells: Sequence[CellResult], wrong: Sequence[str], shows: dict[str, bool]) -> Finding:
    mismatches = sum(cell.result[name] for cell in cells for name in wrong)
    numbers: dict[str, float | str] = {
        "entries compared": sum(cell.result["entries"] for cell in cells),
        "entries that differ": mismatches,
        "probability that a false identity passes": (3 / _RANGE) ** len({cell.seed for cell in cells}),
    }
    return holds_if(not mismatches, numbers, shows=shows)


@claim(
    where="Fact A.1",
    says=r"$\text{vec}(\exp(A_1 Q K^\top A_2^\top))$ is $\exp((A_1 \otimes A_2) \text{vec}(Q K^\top))$.",
    cells=trick_cells,
    errata=(
        typographical(
            printed=r"$\text{vec}$ is not defined.",
            right=r"$\text{vec}$ stacks rows. (If it stacks columns, as is usual, $A_1 \otimes A_2$ must be replaced "
            r"by $A_2 \otimes A_1$.)",
            why="With columns the two sides differ; the blocks of Definitions C.1 and C.4 need rows as well. (The "
            r"notation of Section 3 has a slip too: it defines $\exp(u)$ by $\exp(x)_i = \exp(x_i)$.)",
            shown_by="stacking columns is another matrix",
        ),
    ),
    neighbours=(Neighbour("vec stacks columns", {"stacked": "by_columns"}),),
)
def fact_a_1(cells: Sequence[CellResult], stacked: str = "by_rows") -> Finding:
    """Check both ways of stacking.

    An earlier version reported a second misprint, an i for a 1 in an index of Appendix A. It rested on one character of
    one extracted text and was withdrawn.
    """
    shows = {"stacking columns is another matrix": all(cell.result["by_columns"] for cell in cells)}
    return trick_finding(cells, (stacked,), shows)
