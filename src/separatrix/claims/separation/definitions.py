"""Fact A.1, Claims C.3 and C.5, Definition C.6 and Equation (1): attention by blocks of a Kronecker product.

Identities between polynomials in the entries, tested at random integers, where nothing is rounded; exp is applied entry
by entry, so what stands under it is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from separatrix.attention.operator import tensor_attention
from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.datasets import AttentionInput
from separatrix.separation.networks import rectified, softmax_network

_RANGE = 1024
"""How many values an entry is drawn from: a false identity of degree 3 passes a cell with a chance of 3 / 1024."""


def _integers(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randint(-_RANGE // 2, _RANGE // 2, shape, generator=generator)


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1)


def _columns(x: Tensor) -> Tensor:
    return x.mT.reshape(-1)


def _kronecker(A: Tensor, B: Tensor, column: Callable[[int, int], int]) -> Tensor | None:
    """A (x) B by its entries, with the column (`column`(i1, j1)) d2 + j2, from 1; None where that is no column."""
    (n1, d1), (n2, d2) = A.shape, B.shape
    made = torch.zeros(n1 * n2, d1 * d2, dtype=A.dtype)
    for i1 in range(1, n1 + 1):
        for j1 in range(1, d1 + 1):
            start = column(i1, j1) * d2
            if not 0 <= start <= (d1 - 1) * d2:
                return None
            made[(i1 - 1) * n2 : i1 * n2, start : start + d2] = A[i1 - 1, j1 - 1] * B
    return made


@experiment(version=1, name="separation.tensor_trick")
def tensor_trick(n: int, d: int, seed: int) -> dict[str, int | bool]:
    """Entries that differ between vec(A_1 X A_2^T) and (A_1 (x) A_2) vec(X), vec by rows and by columns; and blocks."""
    generator = torch.Generator().manual_seed(seed)
    A1, A2 = _integers(generator, n, d), _integers(generator, n, d)
    X = _integers(generator, d, d)
    A, scores = torch.kron(A1, A2), A1 @ X @ A2.mT
    blocks = (A @ _rows(X)).reshape(n, n)
    printed = _kronecker(A1, A2, lambda i1, j1: j1 - i1)
    right = _kronecker(A1, A2, lambda i1, j1: j1 - 1)
    return {
        "entries": scores.numel(),
        "by_rows": int((_rows(scores) != A @ _rows(X)).sum()),
        "by_columns": int((_columns(scores) != A @ _columns(X)).sum()),
        "blocks": int((blocks != scores).sum()),
        "sums": int((blocks.sum(1) != (A1 @ X @ A2.sum(0, keepdim=True).mT).squeeze(1)).sum()),
        "index_right": right is not None and torch.equal(right, A),
        "index_printed": printed is not None and torch.equal(printed, A),
    }


def _cells() -> Iterator[Cell]:
    for n, d in ((2, 2), (5, 3), (3, 5), (8, 4)):
        for seed in range(4):
            yield tensor_trick.cell(seed=seed, n=n, d=d)


def _finding(found: Sequence[Found], wrong: Sequence[str], slips: dict[str, bool]) -> Finding:
    mismatches = sum(one.result[name] for one in found for name in wrong)
    numbers: dict[str, float | str] = {
        "entries compared": sum(one.result["entries"] for one in found),
        "entries that differ": mismatches,
        "chance that a false identity passes": (3 / _RANGE) ** len({one.seed for one in found}),
    }
    numbers |= {f"shown: {slip}": "yes" if shown else "no" for slip, shown in slips.items()}
    if mismatches:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    if not all(slips.values()):
        return Finding(Verdict.UNDECIDED, numbers, "A slip is not shown by these cells.")
    return Finding(Verdict.HOLDS_CORRECTED if slips else Verdict.HOLDS, numbers)


@claim(
    paper="separation",
    where="Fact A.1",
    says="vec(exp(A_1 QK^T A_2^T)) = exp((A_1 (x) A_2) vec(QK^T)).",
    cells=_cells,
    errata=(
        Erratum(
            printed="vec is not defined.",
            right="vec stacks rows. (If it stacks columns, as is usual, A_1 (x) A_2 must be A_2 (x) A_1.)",
            why="With columns the two sides differ; the blocks of Definitions C.1 and C.4 want rows too.",
        ),
        Erratum(
            printed="Appendix A: A_{i_1, j_1} B_{i_2, j_2} is in column (j_1 - i) d_2 + j_2 of A (x) B.",
            right="(j_1 - 1) d_2 + j_2.",
            why="There is no i; with i_1 for it the column need not exist.",
        ),
    ),
)
def fact_a1(found: Sequence[Found]) -> Finding:
    slips = {
        "stacking columns is another matrix": all(one.result["by_columns"] for one in found),
        "the printed column is wrong, the corrected one right": all(
            one.result["index_right"] and not one.result["index_printed"] for one in found
        ),
    }
    return _finding(found, ("by_rows",), slips)


@claim(
    paper="separation",
    where="Claim C.3",
    says="Block j_0 of (A_1 (x) A_2) vec(QK^T) is row j_0 of A_1 QK^T A_2^T: that is u_lin, and alpha_lin is its sum.",
    cells=_cells,
)
def claim_c3(found: Sequence[Found]) -> Finding:
    return _finding(found, ("blocks", "sums"), {})


@claim(
    paper="separation",
    where="Claim C.5",
    says="u_exp(A, x)_{j_0} is the exponential of row j_0 of A_1 QK^T A_2^T, and alpha_exp is its sum.",
    cells=_cells,
)
def claim_c5(found: Sequence[Found]) -> Finding:
    """The exponents agree as integers, so their exponentials and the sums of these do."""
    return _finding(found, ("blocks",), {})


@experiment(version=1, name="separation.shapes")
def shapes(n: int, d: int, m: int, seed: int) -> dict[str, float | bool]:
    """F_exp and Att by their definitions beside the library's; which shapes of y and D(X) the definitions take."""
    generator = torch.Generator().manual_seed(seed)
    A1, A2, A3 = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(3))
    X = torch.randn(d, d, generator=generator, dtype=torch.float64)
    u = torch.exp(A1 @ X @ A2.mT)
    D = torch.diag(u.sum(1))
    c = torch.linalg.solve(D, u) @ A3

    def network(rows: int) -> float | None:
        y = torch.ones(rows, m, dtype=torch.float64)
        return float(rectified(c @ y, 0.1)) if c.shape[1] == y.shape[0] else None

    by_library = softmax_network(AttentionInput(A1, A2, A3, 0, 0), X, torch.ones(d, m, dtype=torch.float64), 0.1)
    literal = network(d)
    return {
        "attention": float((c - tensor_attention(A1 @ X, A2, A3, scale=1.0)).abs().max()),
        "network": abs(float(by_library) - literal) if literal is not None else float("inf"),
        "takes_n": network(n) is not None,
        "normaliser_is_n_by_n": D.shape == (n, n),
        "normaliser_is_d_by_d": D.shape == (d, d),
    }


def _shape_cells() -> Iterator[Cell]:
    for n, d, m in ((4, 3, 2), (9, 5, 3), (6, 8, 1)):
        yield shapes.cell(seed=0, n=n, d=d, m=m)


@claim(
    paper="separation",
    where="Definition C.6",
    says="F_exp = phi(sum over j_0 and l of phi_tau(<c_exp(A, x)_{j_0}, y_l>)), with the attention of Equation (1).",
    cells=_shape_cells,
    errata=(
        Erratum(
            printed="y in R^{n x m}, y_l in R^n.",
            right="y in R^{d x m}, y_l in R^d, as in Definition C.2.",
            why="c_exp(A, x)_{j_0} is in R^d. (Theorems D.5, F.5, F.9, F.13 and F.17 print <c(A, x), y> without the "
            "index j_0.)",
        ),
        Erratum(
            printed="Equation (1): D(X) in R^{d x d}.",
            right="In R^{n x n}.",
            why="It has an entry for each of the n rows of A_1.",
        ),
    ),
)
def definition_c6(found: Sequence[Found]) -> Finding:
    """The literal definition against the library's networks, and the printed shapes, which do not fit."""
    worst = max(max(one.result["attention"], one.result["network"]) for one in found)
    fits = sum(bool(one.result["takes_n"] or one.result["normaliser_is_d_by_d"]) for one in found)
    right = all(one.result["normaliser_is_n_by_n"] for one in found)
    numbers: dict[str, float | str] = {
        "largest difference from the library's network": worst,
        "cells that the printed shapes fit": fits,
    }
    if worst > 1e-11 or not right:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    return Finding(Verdict.UNDECIDED if fits else Verdict.HOLDS_CORRECTED, numbers)
