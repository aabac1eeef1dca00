"""The definitions of order-k attention in Alman and Song (1.1, 1.5, C.2, D.1), and the library against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention.reference import column_kronecker
from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_TOLERANCE = 1e-9
"""Asked of the polynomial method."""
_ROUNDING = 1e-12
"""Of float64, for values up to 1 and a few thousand terms."""


def _draw(order: int, n: int, d: int, seed: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
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
    Q, K, V = _draw(order, n, d, seed)
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
    says="Order-k attention: n^{k-1} weights a query, exp of the mean product of k entries, over the column-wise "
    "Kronecker product of k - 1 values. Both algorithms of the library compute it, k = 2 to 5.",
    cells=_order_cells,
    figures=("definition_errors",),
    errata=(
        Erratum(
            printed="A = exp(Q (K_1 (x) ... (x) K_{k-1}))^T / d, and D = diag(exp(Q (K_1 (x) ... (x) K_{k-1})) / d) 1.",
            right="A = exp(Q (K_1 (x) ... (x) K_{k-1})^T / d), and D = diag(A 1).",
            why="The brackets are misplaced: Q and the product of the keys have no product without the transpose, and "
            "at k = 3 it must be Definition 1.1, which transposes and divides within exp.",
        ),
    ),
)
def definition_1_5(found: Sequence[Found]) -> Finding:
    exact = max(one.result["exact"] for one in found)
    polynomial = max(one.result["polynomial"] for one in found)
    beyond = sum(one.result["polynomial"] > one.result["certificate"] for one in found)
    printed = min(one.result["printed"] for one in found if one.parameters["d"] > 1)
    numbers: dict[str, float | str] = {
        "largest error, exact": exact,
        "largest error, polynomial": polynomial,
        "cells beyond their certificate": beyond,
        "least difference of the printed formula, d > 1": printed,
    }
    if exact > _ROUNDING or beyond or polynomial > _TOLERANCE:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    return Finding(Verdict.HOLDS_CORRECTED if printed > _TOLERANCE else Verdict.HOLDS, numbers)


@experiment(version=1, name="kronecker.definition_c_2")
def restatements(n: int, d: int, seed: int) -> dict[str, float | int]:
    """Definitions C.2 and D.1 as printed and with what they lack, against Definition 1.1."""
    Q, K, V = _draw(3, n, d, seed)
    S = Q @ column_kronecker(*K).mT
    A = torch.exp(S / d)
    first = literal(A, V)
    return {
        "c2_printed": float((literal(S, V) - first).abs().max()),
        "d1_printed": float((literal(torch.exp(S), V) - first).abs().max()),
        "corrected": float((sx.tensor_attention(Q, K, V) - first).abs().max()),
        "negative_weights": int((S < 0).sum()),
        "n": n,
        "columns_of_D": torch.diag(A @ torch.ones(n * n, dtype=A.dtype)).shape[1],
    }


def _restatement_cells() -> Iterator[Cell]:
    for n, d in ((5, 3), (12, 4), (24, 8)):
        yield restatements.cell(seed=0, n=n, d=d)


def _restated(found: Sequence[Found], printed: str, numbers: dict[str, float | str]) -> Finding:
    corrected = max(one.result["corrected"] for one in found)
    differs = min(one.result[printed] for one in found)
    numbers = {
        "largest difference from Definition 1.1, corrected": corrected,
        "least difference from Definition 1.1, as printed": differs,
        **numbers,
    }
    if corrected > _ROUNDING:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    return Finding(Verdict.HOLDS_CORRECTED if differs > _ROUNDING else Verdict.HOLDS, numbers)


@claim(
    paper="kronecker",
    where="Definition C.2",
    says="It restates Definition 1.1, tensor attention of order 3.",
    cells=_restatement_cells,
    errata=(
        Erratum(
            printed="A = Q (K_1 (x) K_2)^T.",
            right="A = exp(Q (K_1 (x) K_2)^T / d).",
            why="Without exp it is linear attention: weights may be negative and their sum may vanish. Definition 1.1 "
            "and the lemmas that use it have exp, and divide by d.",
        ),
        Erratum(
            printed="D has n rows and n^2 columns.",
            right="D has n rows and n columns.",
            why="D = diag(A 1) is the diagonal matrix of n row sums, and is inverted.",
        ),
    ),
)
def definition_c2(found: Sequence[Found]) -> Finding:
    square = all(one.result["columns_of_D"] == one.result["n"] for one in found)
    negative = sum(one.result["negative_weights"] for one in found)
    return _restated(
        found, "c2_printed", {"negative weights as printed": negative, "D is": "square" if square else "not"}
    )


@claim(
    paper="kronecker",
    where="Definition D.1",
    says="It restates Definition 1.2, whose attention is that of Definition 1.1.",
    cells=_restatement_cells,
    errata=(
        Erratum(
            printed="A = exp(Q (K_1 (x) K_2)^T).",
            right="A = exp(Q (K_1 (x) K_2)^T / d).",
            why="Definition 1.1, which Definition 1.2 points to, divides by d, and so does Lemma D.3's bound on the "
            "scores.",
        ),
    ),
)
def definition_d1(found: Sequence[Found]) -> Finding:
    return _restated(found, "d1_printed", {})
