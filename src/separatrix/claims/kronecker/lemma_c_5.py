"""Lemma C.5 of Alman and Song: the scores as a tensor, their row sums, and their product with the values.

As in `lemma_c_3`, identities between polynomials are tested at random integers, without rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.attention.reference import column_kronecker, tensor_scores
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.lemma_c_3 import check_length, integers
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment

_TENSOR_RANGE = 512
"""The number of values that an entry is drawn from, small enough that no sum overflows int64."""


@experiment(version=2, name="kronecker.lemma_c5")
def tensor_identities(n: int, d: int, seed: int) -> dict[str, int]:
    """Count the entries in each part of Lemma C.5, and those that differ.

    In `part1_turned` j_2 runs fastest, `part2_once` uses the column sums of K_1 only, and `part3_crossed` exchanges V_1
    and V_2.
    """
    check_length(n)
    generator = torch.Generator().manual_seed(seed)
    Q, K1, K2, V1, V2 = (integers(generator, _TENSOR_RANGE, n, d) for _ in range(5))
    A = Q @ column_kronecker(K1, K2).mT
    T = tensor_scores(Q, [K1, K2], 1)
    # Columns j_1 + (j_2 - 1) n, counted from 1, are j_1 + j_2 n from 0.
    columns = torch.arange(n).unsqueeze(1) + n * torch.arange(n)
    ones = torch.ones(n, 1, dtype=torch.int64)
    sums = A.sum(1, keepdim=True)
    by_tensor = torch.einsum("abc,ai,bj,cl->ijl", T, torch.eye(n, dtype=torch.int64), ones, ones).flatten(1)
    by_sums = tensor_scores(Q, [K1.sum(0, keepdim=True), K2.sum(0, keepdim=True)], 1).flatten(1)
    applied = A @ column_kronecker(V1, V2)
    factored = Q @ ((K1.mT @ V1) * (K2.mT @ V2))
    return {
        "part1": int((A[:, columns] != T).sum()),
        "part1_turned": int((A[:, columns.mT] != T).sum()),
        "part2_once": int((sums != Q @ K1.sum(0).unsqueeze(1)).sum()),
        "part3_crossed": int((applied != Q @ ((K1.mT @ V2) * (K2.mT @ V1))).sum()),
        "part2": int((sums != by_tensor).sum() + (sums != by_sums).sum()),
        "part3": int((applied != factored).sum()),
        "entries": T.numel() + 2 * sums.numel() + applied.numel(),
    }


_tensor_cells = cell_grid(tensor_identities, {"n d": ((1, 1), (2, 5), (9, 3), (24, 6)), "seed": range(5)})


def _check_part(cells: Sequence[CellResult], part: str, degree: int) -> Finding:
    mismatches = sum(cell.result[part] for cell in cells)
    seeds = len({cell.seed for cell in cells})
    numbers: dict[str, float | str] = {
        "entries that differ": mismatches,
        "shapes": len({(cell.parameters["n"], cell.parameters["d"]) for cell in cells}),
        "probability that a false identity passes": (degree / _TENSOR_RANGE) ** seeds,
    }
    return holds_if(not mismatches, numbers)


@claim(
    where="Lemma C.5",
    part="part 1",
    says=r"The matrix $Q (K_1 \otimes K_2)^\top$ is the tensor of the triple inner products, and its column $j_1 + "
    "(j_2 - 1) n$ belongs to the pair $(j_1, j_2)$.",
    cells=_tensor_cells,
    proof="The scores as a tensor",
    neighbours=(Neighbour("column $j_2 + (j_1 - 1) n$ is the pair $(j_1, j_2)$", {"part": "part1_turned"}),),
)
def lemma_c_5_part_1(cells: Sequence[CellResult], part: str = "part1") -> Finding:
    return _check_part(cells, part, 3)


@claim(
    where="Lemma C.5",
    part="part 2",
    says=r"The row sums of $Q (K_1 \otimes K_2)^\top$ need only the column sums of $K_1$ and $K_2$.",
    cells=_tensor_cells,
    proof="The scores as a tensor",
    neighbours=(Neighbour("they need only the column sums of $K_1$", {"part": "part2_once"}),),
)
def lemma_c_5_part_2(cells: Sequence[CellResult], part: str = "part2") -> Finding:
    return _check_part(cells, part, 3)


@claim(
    where="Lemma C.5",
    part="part 3",
    says=r"The product of $Q (K_1 \otimes K_2)^\top$ with $V_1 \otimes V_2$ is $Q$ times the entrywise product of "
    r"$K_1^\top V_1$ and $K_2^\top V_2$.",
    cells=_tensor_cells,
    proof="The scores as a tensor",
    neighbours=(Neighbour(r"of $K_1^\top V_2$ and $K_2^\top V_1$", {"part": "part3_crossed"}),),
)
def lemma_c_5_part_3(cells: Sequence[CellResult], part: str = "part3") -> Finding:
    return _check_part(cells, part, 5)
