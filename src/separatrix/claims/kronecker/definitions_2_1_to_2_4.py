"""Definitions 2.1 to 2.4 of Alman and Song: the four products, compared with the printed indices at random integers.

The entrywise product and the Kronecker product are PyTorch's operators, the other two are the library's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.attention.reference import column_kronecker, tensor_scores
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.lemma_c_3 import integers
from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.definitions_2")
def products(n: int, d: int, seed: int) -> dict[str, int]:
    """Count the entries in which the operators differ from the printed index formulas, and from wrong ones."""
    generator = torch.Generator().manual_seed(seed)
    A, B, C = (integers(generator, 64, n, d) for _ in range(3))
    rows, columns = range(n), range(d)
    tensor = tensor_scores(A, [B, C], 1)
    big, small = torch.kron(B, A), column_kronecker(A, B)
    differing = dict.fromkeys(
        ("entrywise", "matrix", "tensor", "dotted", "kronecker", "turned", "column", "other_order"), 0
    )
    for i in rows:
        for a in columns:
            differing["entrywise"] += int((A * B)[i, a] != A[i, a] * B[i, a])
            differing["matrix"] += int((A * B)[i, a] != sum(int(A[i, b] * B[b % n, a]) for b in columns))
    for i in rows:
        for j in rows:
            for a in columns:
                entry = int(A[i, a] * B[j, a])
                differing["column"] += int(small[i + j * n, a] != entry)
                differing["other_order"] += int(small[i * n + j, a] != entry)
                for b in columns:
                    entry = int(A[i, a] * B[j, b])
                    differing["kronecker"] += int(big[i + j * n, a + b * d] != entry)
                    differing["turned"] += int(torch.kron(A, B)[i + j * n, a + b * d] != entry)
            for k in rows:
                entry = sum(int(A[i, a] * B[j, a] * C[k, a]) for a in columns)
                differing["tensor"] += int(tensor[i, j, k] != entry)
                differing["dotted"] += int(tensor[i, j, k] != int(A[i] @ B[j]) * int(A[i] @ C[k]))
    return differing


def _operator(where: str, says: str, defines: str, right: str, wrong: str, instead: str) -> Claim:
    """Register the definition of an operator: no entry may differ from the printed index formula."""

    @claim(
        where=where,
        says=says,
        cells=cell_grid(products, {"n d": ((1, 1), (2, 3), (3, 2), (4, 1))}),
        defines=(defines,),
        neighbours=(Neighbour(instead, {"indices": wrong}),),
        home=__name__,
    )
    def check(cells: Sequence[CellResult], indices: str = right) -> Finding:
        differ = sum(cell.result[indices] for cell in cells)
        return holds_if(not differ, {"matrices": len(cells), "entries that differ": differ})

    return check


_operator(
    "Definition 2.1",
    "The entrywise (Hadamard) product is $C_{i, j} = A_{i, j} B_{i, j}$.",
    "torch.mul",
    "entrywise",
    "matrix",
    "$C$ is the matrix product $A B$, with the rows of $B$ repeated if $B$ has too few",
)
_operator(
    "Definition 2.2",
    r"The tensor of three matrices is $T_{i, j, l} = \sum_a A_{i, a} B_{j, a} C_{l, a}$. Its entries are the scores "
    "of order 3.",
    "separatrix.attention.reference.tensor_scores",
    "tensor",
    "dotted",
    "$T_{i, j, l}$ is the product of the dot products of row $i$ with rows $j$ and $l$",
)
_operator(
    "Definition 2.3",
    r"The Kronecker product is the $n^2 \times d^2$ matrix in whose rows and columns the first index runs fastest; "
    r"in the usual notation it is $K_2 \otimes K_1$.",
    "torch.kron",
    "kronecker",
    "turned",
    r"the second index runs fastest, as in PyTorch's $\text{kron}(K_1, K_2)$",
)
_operator(
    "Definition 2.4",
    r"The column-wise Kronecker product is $n^2 \times d$, and its row $i_1 + (i_2 - 1) n$ is the entrywise product "
    "of row $i_1$ of the first matrix and row $i_2$ of the second.",
    "separatrix.attention.reference.column_kronecker",
    "column",
    "other_order",
    "the second index runs fastest",
)
