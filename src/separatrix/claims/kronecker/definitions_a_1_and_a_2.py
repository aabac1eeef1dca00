"""Definitions A.1 and A.2 of Alman and Song: the inner product of k vectors, and the largest one of three sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.hardness.maxip import GapMaxIP, largest_products
from separatrix.hardness.orthogonal_vectors import inner_products
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.definitions_a")
def triples(n: int, d: int, density: float, seed: int) -> dict[str, int]:
    """Count the triples whose inner product differs from the sum of products, and compare the largest inner products.

    `pairwise` counts the triples that differ from the sum of the three dot products. `largest` and `least` are 1 if the
    library's largest inner product is not the largest, or not the least, of these values.
    """
    generator = torch.Generator().manual_seed(seed)
    a, b, c = ((torch.rand(n, d, generator=generator) < density).long() for _ in range(3))
    products = inner_products(a, b, c)
    differ = pairwise = 0
    values = []
    for i, j, k in itertools.product(range(n), repeat=3):
        rows = [(a[i].tolist(), b[j].tolist(), c[k].tolist())]
        ((x, y, z),) = rows
        value = sum(math.prod(entries) for entries in zip(x, y, z, strict=True))
        dots = sum(sum(p * q for p, q in zip(u, v, strict=True)) for u, v in itertools.combinations((x, y, z), 2))
        values.append(value)
        differ += int(products[i, j, k]) != value
        pairwise += int(products[i, j, k]) != dots
    largest = int(largest_products(GapMaxIP(a, b, c, threshold=1, epsilon=1.0)).max()) if d else 0
    return {
        "triples": n**3,
        "products": differ,
        "pairwise": pairwise,
        "largest": int(largest != max(values)),
        "least": int(largest != min(values)),
    }


_cells = cell_grid(triples, {"n d density": ((1, 1, 0.5), (2, 5, 0.9), (4, 8, 0.5), (5, 3, 0.0), (3, 4, 1.0))})


@claim(
    where="Definition A.1",
    says="The inner product of $k$ vectors is the sum over coordinates of the products of their $k$ entries.",
    cells=_cells,
    defines=("separatrix.hardness.orthogonal_vectors.inner_products",),
    neighbours=(Neighbour("the sum of the dot products of all pairs", {"product": "pairwise"}),),
)
def definition_a_1(cells: Sequence[CellResult], product: str = "products") -> Finding:
    """Check every triple of every instance; two instances have entries that are all 0 or all 1."""
    differ = sum(cell.result[product] for cell in cells)
    return holds_if(not differ, {"triples": sum(cell.result["triples"] for cell in cells), "that differ": differ})


@claim(
    where="Definition A.2",
    says="The problem 3-Max-IP is to compute the largest inner product of three vectors, one from each of three sets.",
    cells=_cells,
    defines=("separatrix.hardness.maxip.largest_products",),
    neighbours=(Neighbour("the least inner product", {"which": "least"}),),
)
def definition_a_2(cells: Sequence[CellResult], which: str = "largest") -> Finding:
    """Compare the largest product with the maximum of the library's largest products over all a_i."""
    wrong = sum(cell.result[which] for cell in cells)
    return holds_if(not wrong, {"instances": len(cells), "instances whose largest product differs": wrong})
