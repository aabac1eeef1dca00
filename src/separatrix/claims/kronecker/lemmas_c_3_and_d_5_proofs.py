"""The proofs of Lemmas C.3 and D.5 of Alman and Song: both are correct except for the index of summation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.attention.reference import column_kronecker
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.lemma_c_3 import integers
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.registry import experiment

_COLUMNS = "the columns of A make another matrix, or do not exist"
_SQUARE = "C is not d by d"
_SUM = "the sum over j is n^2 times one entry"


@experiment(version=1, name="kronecker.lemma_c3_proof")
def outer_products(n: int, d1: int, d2: int, seed: int) -> dict[str, int | bool]:
    """Compare C = A^T B with the sum of outer products of the rows of A and B, and with that of their columns."""
    generator = torch.Generator().manual_seed(seed)
    A = column_kronecker(*(integers(generator, 64, n, d1) for _ in range(2)))
    B = column_kronecker(*(integers(generator, 64, n, d2) for _ in range(2)))
    C = A.mT @ B
    rows = sum((torch.outer(A[i], B[i]) for i in range(n * n)), torch.zeros_like(C))
    return {
        "rows_differ": int((rows != C).sum()),
        "column_length": A.shape[0],
        "columns": A.shape[1],
        "outer_is_d1_by_d2": torch.outer(A[:, 0], B[:, 0]).shape == C.shape,
        "square": C.shape[0] == C.shape[1],
    }


@experiment(version=1, name="kronecker.lemma_d5_proof")
def row_sums(n: int, seed: int) -> dict[str, int]:
    """Count the entries (i, l) at which the sum of A[i, l] over l, or over j with l fixed, is not D[i, i]."""
    A = integers(torch.Generator().manual_seed(seed), 64, n, n * n).abs() + 1
    D = torch.diag(A @ torch.ones(n * n, dtype=torch.int64)).diagonal()
    over_l = torch.stack([A[i].sum() for i in range(n)])
    return {
        "over_l": int((over_l != D).sum()),
        "over_j": int((n * n * A != D.unsqueeze(1)).sum()),
        "entries": A.numel(),
    }


@claim(
    where="Lemma C.3",
    part="proof",
    says=r"The proof writes $A^\top B$ as the sum of $n^2$ products of a vector with a transposed vector, one for "
    "each pair $(i, j)$.",
    cells=cell_grid(outer_products, {"n d1 d2": ((2, 3, 5), (3, 4, 2), (2, 4, 4), (1, 2, 3))}),
    errata=(
        typographical(
            printed=r"$A_{\ast, i}$ is the column $i$ of $A$, in $\mathbb{R}^{n^2}$, for $i \in [d]$; "
            r"$A^\top B$ is the sum of $A_{\ast, i} B_{\ast, i}^\top$ for $i$ from 1 to $n^2$.",
            right=r"It should be $A_{i, \ast}$, the row $i$ as a vector of $\mathbb{R}^{d_1}$, for $i \in [n^2]$.",
            why=r"$A$ is $n^2 \times d_1$: it has $d_1$ columns, of length $n^2$. Its rows are $a_{1, i} "
            r"\circ a_{2, j}$, as the next line says.",
            shown_by=_COLUMNS,
        ),
        typographical(
            printed=r"The first step follows from the definition of $C \in \mathbb{R}^{d \times d}$.",
            right=r"$C \in \mathbb{R}^{d_1 \times d_2}$.",
            why="$A$ has $d_1$ columns and $B$ has $d_2$.",
            shown_by=_SQUARE,
        ),
    ),
    neighbours=(Neighbour("it is the sum over the columns, as printed", {"over": "columns"}),),
)
def lemma_c_3_proof(cells: Sequence[CellResult], over: str = "rows") -> Finding:
    """Check the sum over rows at random integers; a sum over columns has another shape unless n^2 is d_1 or d_2."""
    differ = sum(cell.result["rows_differ"] for cell in cells)
    fit = sum(
        cell.result["outer_is_d1_by_d2"] and cell.result["columns"] >= cell.result["column_length"] for cell in cells
    )
    square = sum(bool(cell.result["square"]) for cell in cells)
    numbers: dict[str, float | str] = {
        "entries that differ, over rows": differ,
        "products that columns fit": f"{fit} of {len(cells)}",
        "products that are square": f"{square} of {len(cells)}",
    }
    passed = not differ if over == "rows" else fit == len(cells)
    return holds_if(passed, numbers, shows={_COLUMNS: fit < len(cells), _SQUARE: square < len(cells)})


@claim(
    where="Lemma D.5",
    part="proof",
    says=r"The proof compares a row sum of $\tilde{A}$ with one of $A$, entry by entry.",
    cells=cell_grid(row_sums, {"n": (2, 3, 8)}),
    errata=(
        typographical(
            printed=r"$\lvert \sum_{l = 1}^{n^2} \tilde{A}_{i, l} - \sum_{j = 1}^{n^2} A_{i, l} \rvert$.",
            right="Both sums run over $l$.",
            why="The second sum runs over $j$, on which its terms do not depend, so that it is $n^2 A_{i, l}$. "
            "(This erratum rests on a single character of the text that we read.)",
            shown_by=_SUM,
        ),
    ),
    neighbours=(Neighbour("the second sum runs over $j$, as printed", {"index": "over_j"}),),
)
def lemma_d_5_proof(cells: Sequence[CellResult], index: str = "over_l") -> Finding:
    wrong = sum(cell.result[index] for cell in cells)
    printed = sum(cell.result["over_j"] for cell in cells)
    numbers: dict[str, float | str] = {
        "rows whose sum over l is not D": sum(cell.result["over_l"] for cell in cells),
        "entries whose sum over j is not D": f"{printed} of {sum(cell.result['entries'] for cell in cells)}",
    }
    return holds_if(not wrong, numbers, shows={_SUM: printed > 0})
