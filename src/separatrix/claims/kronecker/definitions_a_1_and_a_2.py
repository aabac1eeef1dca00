"""Definitions A.1 and A.2 of Alman and Song: the inner product of k vectors, and the largest one of three sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch

from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.hardness.maxip import GapMaxIP, largest_products
from separatrix.hardness.orthogonal_vectors import inner_products
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.definitions_a")
def triples(n: int, d: int, density: float, seed: int) -> dict[str, int]:
    """Triples whose inner product differs from the sum of products, and whether the largest is the library's.

    `pairwise` counts triples that differ from the sum of the three dot products, `least` is 1 where the least product
    is not the largest.
    """
    generator = torch.Generator().manual_seed(seed)
    a, b, c = ((torch.rand(n, d, generator=generator) < density).long() for _ in range(3))
    found = inner_products(a, b, c)
    differ = pairwise = 0
    values = []
    for i, j, k in itertools.product(range(n), repeat=3):
        rows = [(a[i].tolist(), b[j].tolist(), c[k].tolist())]
        ((x, y, z),) = rows
        value = sum(math.prod(entries) for entries in zip(x, y, z, strict=True))
        dots = sum(sum(p * q for p, q in zip(u, v, strict=True)) for u, v in itertools.combinations((x, y, z), 2))
        values.append(value)
        differ += int(found[i, j, k]) != value
        pairwise += int(found[i, j, k]) != dots
    largest = int(largest_products(GapMaxIP(a, b, c, threshold=1, epsilon=1.0)).max()) if d else 0
    return {
        "triples": n**3,
        "products": differ,
        "pairwise": pairwise,
        "largest": int(largest != max(values)),
        "least": int(largest != min(values)),
    }


def _cells() -> Iterator[Cell]:
    for n, d, density in ((1, 1, 0.5), (2, 5, 0.9), (4, 8, 0.5), (5, 3, 0.0), (3, 4, 1.0)):
        yield triples.cell(seed=0, n=n, d=d, density=density)


@claim(
    paper="kronecker",
    where="Definition A.1",
    says="The inner product of $k$ vectors is the sum over coordinates of the products of their $k$ entries.",
    cells=_cells,
    defines=("separatrix.hardness.orthogonal_vectors.inner_products",),
    neighbours=(Neighbour("the sum of the dot products of all pairs", {"product": "pairwise"}),),
)
def definition_a_1(found: Sequence[Found], product: str = "products") -> Finding:
    """Every triple of every instance, entries all zero and all one among them."""
    differ = sum(one.result[product] for one in found)
    return holds_if(not differ, {"triples": sum(one.result["triples"] for one in found), "that differ": differ})


@claim(
    paper="kronecker",
    where="Definition A.2",
    says="The quantity is the largest inner product of three vectors, one from each of three sets.",
    cells=_cells,
    defines=("separatrix.hardness.maxip.largest_products",),
    neighbours=(Neighbour("the least inner product", {"which": "least"}),),
)
def definition_a_2(found: Sequence[Found], which: str = "largest") -> Finding:
    """The library has the largest product of every a_i; the problem asks for the largest of these."""
    wrong = sum(one.result[which] for one in found)
    return holds_if(not wrong, {"instances": len(found), "with another largest product": wrong})
