"""Lemma C.3 of Alman and Song: products of column-wise Kronecker products factor.

The lemma is an identity between polynomials in the entries, so it is tested at random integers, without rounding: a
single entry that differs refutes it. A false identity of degree D agrees at a point drawn from S in each coordinate
with probability at most D / |S| (Schwartz and Zippel), so agreement at several points makes an error unlikely.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from separatrix.attention.reference import column_kronecker
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.errors import ArgumentError
from separatrix.lab.registry import experiment

_FACTORING_RANGE = 2048
"""The number of values that an entry is drawn from, small enough that no sum overflows int64."""

_LARGEST_N = 512


def integers(generator: torch.Generator, size: int, *shape: int) -> Tensor:
    """Draw int64 integers uniformly from [-size / 2, size / 2)."""
    return torch.randint(-size // 2, size // 2, shape, generator=generator)


def check_length(n: int) -> None:
    if not 1 <= n <= _LARGEST_N:
        raise ArgumentError("n", expected=f"from 1 to {_LARGEST_N}, so that no sum overflows int64", got=n)


@experiment(version=2, name="kronecker.lemma_c3")
def factoring(n: int, d1: int, d2: int, seed: int) -> dict[str, int]:
    """Compare C = A^T B for column-wise Kronecker products A and B with C_1 o C_2, and count the flops of both.

    `crossed` counts the entries that differ if A_1 is multiplied with B_2, and A_2 with B_1.
    """
    check_length(n)
    generator = torch.Generator().manual_seed(seed)
    A1, A2 = (integers(generator, _FACTORING_RANGE, n, d1) for _ in range(2))
    B1, B2 = (integers(generator, _FACTORING_RANGE, n, d2) for _ in range(2))
    with FlopCounterMode(display=False) as direct:
        C = column_kronecker(A1, A2).mT @ column_kronecker(B1, B2)
    with FlopCounterMode(display=False) as factored:
        product = (A1.mT @ B1) * (A2.mT @ B2)
    return {
        "entries": C.numel(),
        "mismatches": int((product != C).sum()),
        "crossed": int(((A1.mT @ B2) * (A2.mT @ B1) != C).sum()),
        "direct_flops": direct.get_total_flops(),
        "factored_flops": factored.get_total_flops(),
    }


@claim(
    where="Lemma C.3",
    says=r"The product $A^\top B$ of two column-wise Kronecker products, each with $n^2$ rows, is the entrywise "
    r"product of $A_1^\top B_1$ and $A_2^\top B_2$, so that it costs two products with $n$ rows.",
    cells=cell_grid(
        factoring,
        {"n d1 d2": ((1, 3, 2), (3, 1, 5), (16, 7, 4), (32, 7, 4), (64, 7, 4), (128, 7, 4)), "seed": range(4)},
    ),
    figures=("kronecker_product_flops",),
    proof="Products of column-wise Kronecker products",
    neighbours=(
        Neighbour(r"it is the entrywise product of $A_1^\top B_2$ and $A_2^\top B_1$", {"product": "crossed"}),
        Neighbour("it costs one product with $n$ rows", {"products": 1}),
    ),
)
def lemma_c_3(cells: Sequence[CellResult], product: str = "mismatches", products: int = 2) -> Finding:
    """Check part 1 at random integers, and part 2 by the flop count: 2 T_mat(d_1, n, d_2) is 4 d_1 n d_2 flops."""
    mismatches = sum(cell.result[product] for cell in cells)
    # Part 2 promises O(T_mat(d_1, n, d_2)); the check requires exactly the two products of its proof.
    other_flops = sum(
        cell.result["factored_flops"]
        != 2 * products * cell.parameters["n"] * cell.parameters["d1"] * cell.parameters["d2"]
        for cell in cells
    )
    seeds = len({cell.seed for cell in cells})
    numbers: dict[str, float | str] = {
        "entries compared": sum(cell.result["entries"] for cell in cells),
        "entries that differ": mismatches,
        "cells whose flop count is not that of two products": other_flops,
        "probability that a false identity passes": (4 / _FACTORING_RANGE) ** seeds,
    }
    return holds_if(not (mismatches or other_flops), numbers)
