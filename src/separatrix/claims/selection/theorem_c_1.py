"""Theorem C.1 of Wang, Wei, Hsu and Lee, the full version of Theorem 3.5: first layers of every kind.

A net is a function of h = W x + B y. Given h and y as well, the best estimate of STS_q is its conditional mean, whose
squared error is the trace of (I - P) Sigma. Here STS_q = M_y x, P is the projection on the rows of W, and Sigma is the
mean of M_y^T M_y over all subsets. No net with this first layer has a smaller error. Sigma is computed here as the
explicit mean over subsets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.fcn_bound import fcn_lower_bound
from separatrix.selection.task import all_subsets

Kind = Literal["random", "sparse", "repeated", "best", "none"]
ROWS = "the first layer has fewer than Td rows"


def second_moment(T: int, q: int, d: int) -> Tensor:
    """The mean of M_y^T M_y over all subsets, (Td, Td), with STS_q(x, y) = M_y x.

    >>> second_moment(2, 1, 1).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    total = torch.zeros(T * d, T * d, dtype=torch.float64)
    subsets = all_subsets(T, q)
    for y in subsets:
        M = torch.zeros(d, T * d, dtype=torch.float64)
        for j in y.tolist():
            M[:, j * d : (j + 1) * d] = torch.eye(d, dtype=torch.float64) / q
        total += M.mT @ M
    return total / len(subsets)


def _layer(kind: Kind, k: int, T: int, d: int, source: torch.Generator) -> Tensor:
    """The part of a first layer that multiplies the tokens, (k, Td)."""
    W = torch.randn(k, T * d, generator=source, dtype=torch.float64)
    if kind == "sparse":
        W = W * (torch.rand(k, T * d, generator=source) < 0.2)
    if kind == "repeated":
        W = W[:1].expand(k, -1).clone()
    if kind == "best":
        # The kernel contains (1, -1, 0, ...), whose tokens add up to zero.
        v = torch.zeros(T * d, dtype=torch.float64)
        v[0], v[d] = 1, -1
        W = torch.linalg.svd(v[None], full_matrices=True).Vh[1 : k + 1]
    return W


@experiment(version=1, name="selection.theorem_c_1")
def first_layers(kind: Kind, T: int, q: int, d: int, k: int, seed: int) -> dict[str, float | bool]:
    """Return the least squared error behind a first layer of k neurons, and the proof's steps for a kernel vector."""
    Sigma = second_moment(T, q, d)
    W = _layer(kind, k, T, d, torch.Generator().manual_seed(seed))
    basis = torch.linalg.svd(W, full_matrices=True) if k else None
    rank = int(torch.linalg.matrix_rank(W)) if k else 0
    kernel = basis.Vh[rank:] if basis is not None else torch.eye(T * d, dtype=torch.float64)
    v = kernel[0]
    parts = v.reshape(T, d)
    direct = sum(float(parts[list(y)].sum(0).square().sum()) / q**2 for y in all_subsets(T, q).tolist())
    direct /= math.comb(T, q)
    formula = (T - q) / (T * q * (T - 1)) + (q - 1) / (T * q * (T - 1)) * float(parts.sum(0).square().sum())
    return {
        "error": float(torch.trace(kernel @ Sigma @ kernel.mT)),
        "bound": fcn_lower_bound(T, q),
        "step": abs(direct - formula),
        "rows": W.shape[0],
        "columns": W.shape[1],
        "image": float((W @ v).abs().max()) if k else 0.0,
    }


def _cells() -> Iterator[Cell]:
    for T, q, d in ((4, 2, 1), (5, 1, 2), (3, 3, 2), (6, 4, 1), (7, 2, 3)):
        yield first_layers.cell(seed=0, kind="best", T=T, q=q, d=d, k=T * d - 1)
    for kind, k in (("random", 13), ("random", 6), ("sparse", 13), ("repeated", 13), ("none", 0)):
        yield first_layers.cell(seed=0, kind=kind, T=7, q=3, d=2, k=k)


@claim(
    where="Theorem C.1",
    says="The theorem is Theorem 3.5 in full: no net whose first layer has at most $T d - 1$ neurons has a smaller "
    r"expected squared error than $\frac{T - q}{T q (T - 1)}$.",
    cells=_cells,
    errata=(
        typographical(
            printed=r"$W_s = W[:, Td]$ is the submatrix of the first $Td$ rows of $W$.",
            right=r"Of its first $Td$ columns, $W_s \in \mathbb{R}^{k \times Td}$.",
            why=r"$W$ has $k \le Td - 1$ rows; the tokens are multiplied by its first $Td$ columns.",
            shown_by=ROWS,
        ),
    ),
    neighbours=(
        Neighbour(r"than $1.01 \frac{T - q}{T q (T - 1)}$", {"factor": 1.01}),
        Neighbour(r"than $\frac{T - q}{T q}$", {"bound": "no T - 1"}),
    ),
)
def theorem_c_1(cells: Sequence[CellResult], factor: float = 1.0, bound: str = "printed") -> Finding:
    """Check that no first layer goes below the bound, that the best kernel attains it, and the proof's sum."""
    ratios = []
    for cell in cells:
        least = cell.result["bound"] * (cell.parameters["T"] - 1 if bound == "no T - 1" else 1)
        ratios.append(cell.result["error"] / (factor * least) if least else math.inf)
    steps = max(max(cell.result["step"], cell.result["image"]) for cell in cells)
    rows = sum(cell.result["rows"] >= cell.result["columns"] for cell in cells)
    numbers: dict[str, float | str] = {
        "first layers": len(cells),
        "least error / bound": min(ratios),
        "violation of the steps of the proof": steps,
        "first layers with Td rows": rows,
    }
    return holds_if(min(ratios) >= 1 - 1e-9 and steps <= 1e-9, numbers, shows={ROWS: rows == 0})
