"""Definition 1.5 of Alman and Song: attention of order k, and both algorithms of the library against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention.reference import column_kronecker
from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, Rank, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_TOLERANCE = 1e-9
"""The tolerance that the polynomial method is given."""


ROUNDING = 1e-12
"""The largest rounding error of float64 that is allowed, for values up to 1 and a few thousand terms."""


def draw(order: int, n: int, d: int, seed: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Entries uniform in [-1, 1]: a query, order - 1 keys, order - 1 values."""
    generator = torch.Generator().manual_seed(seed)
    query, *rest = (2 * torch.rand(n, d, generator=generator, dtype=torch.float64) - 1 for _ in range(2 * order - 1))
    return query, rest[: order - 1], rest[order - 1 :]


def literal(A: Tensor, values: Sequence[Tensor], D: Tensor | None = None) -> Tensor:
    """D^-1 A (V_1 (x) ... (x) V_{k-1}) of a materialised A, with D = diag(A 1) unless given.

    >>> literal(torch.tensor([[1.0, 3.0]]), [torch.tensor([[0.0], [4.0]])]).item()
    3.0
    """
    D = torch.diag(A @ torch.ones(A.shape[1], dtype=A.dtype)) if D is None else D
    inverse: Tensor = torch.linalg.inv(D)
    return inverse @ A @ column_kronecker(*values)


@experiment(version=1, name="kronecker.definition_1_5")
def order_k(order: int, n: int, d: int, seed: int) -> dict[str, float]:
    """The largest difference between the definition, every matrix written out, and each algorithm of the library."""
    Q, K, V = draw(order, n, d, seed)
    S = Q @ column_kronecker(*K).mT
    out = literal(torch.exp(S / d), V)
    polynomial = sx.certified_attention(Q, K, V, tolerance=_TOLERANCE, method="polynomial")
    # The printed brackets, read as leniently as they can be: the division by d is outside of exp in A, inside in D.
    printed = literal(torch.exp(S) / d, V, torch.diag(torch.exp(S / d).sum(1)))
    return {
        "exact": float((sx.tensor_attention(Q, K, V) - out).abs().max()),
        "polynomial": float((polynomial.output - out).abs().max()),
        "certificate": polynomial.certificate.total,
        "printed": float((printed - out).abs().max()),
    }


def _order_cells() -> Iterator[Cell]:
    for order, n, d in ((2, 60, 5), (2, 7, 1), (3, 20, 4), (3, 7, 3), (4, 9, 4), (4, 5, 2), (5, 6, 3), (5, 4, 2)):
        yield order_k.cell(seed=0, order=order, n=n, d=d)


@claim(
    paper="kronecker",
    where="Definition 1.5",
    says=r"Attention of order $k$ has $n^{k - 1}$ weights for each query, in proportion to $\exp$ of the mean "
    "product of $k$ entries, and averages the rows of the column-wise Kronecker product of $k - 1$ value sets with "
    "them. Both algorithms of the library compute it, for $k = 2$ to $5$.",
    cells=_order_cells,
    figures=("definition_errors",),
    errata=(
        Erratum(
            printed=r"$A = \exp(Q (K_1 \otimes \cdots \otimes K_{k - 1}))^\top / d$, and $D = "
            r"\operatorname{diag}(\exp(Q (K_1 \otimes \cdots \otimes K_{k - 1})) / d) \mathbf{1}$.",
            right=r"$A = \exp(Q (K_1 \otimes \cdots \otimes K_{k - 1})^\top / d)$, and "
            r"$D = \operatorname{diag}(A \mathbf{1})$.",
            why="The brackets are misplaced: $Q$ and the product of the keys have no product without the transpose, "
            "and at $k = 3$ the definition must agree with Definition 1.1, which transposes and divides inside "
            r"$\exp$.",
            rank=Rank.TYPOGRAPHICAL,
            shown_by="the printed formula is another one for d > 1",
        ),
    ),
    neighbours=(Neighbour(r"the division by $d$ is outside of $\exp$ in $A$, as printed", {"formula": "printed"}),),
)
def definition_1_5(found: Sequence[Found], formula: str = "exact") -> Finding:
    exact = max(one.result[formula] for one in found)
    polynomial = max(one.result["polynomial"] for one in found)
    beyond = sum(one.result["polynomial"] > one.result["certificate"] for one in found)
    printed = min(one.result["printed"] for one in found if one.parameters["d"] > 1)
    numbers: dict[str, float | str] = {
        "largest error, exact": exact,
        "largest error, polynomial": polynomial,
        "cells beyond their certificate": beyond,
        "least difference of the printed formula, d > 1": printed,
    }
    held = exact <= ROUNDING and not beyond and polynomial <= _TOLERANCE
    return holds_if(held, numbers, shows={"the printed formula is another one for d > 1": printed > _TOLERANCE})
