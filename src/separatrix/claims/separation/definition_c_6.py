"""Definition C.6 and Equation (1): the network on softmax attention, and the shapes that are printed for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.attention.operator import tensor_attention
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.registry import experiment
from separatrix.separation.datasets import AttentionInput
from separatrix.separation.networks import rectified, softmax_network


@experiment(version=2, name="separation.shapes")
def shapes(n: int, d: int, m: int, seed: int) -> dict[str, float | bool]:
    """Compare F_exp and Att by their definitions with the library, and test which shapes of y and D(X) fit.

    `without_tau` and `unnormalised` are the differences of the library's network from one with phi instead of phi_tau,
    and from one with u instead of c.
    """
    generator = torch.Generator().manual_seed(seed)
    A1, A2, A3 = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(3))
    X = torch.randn(d, d, generator=generator, dtype=torch.float64)
    u = torch.exp(A1 @ X @ A2.mT)
    D = torch.diag(u.sum(1))
    c = torch.linalg.solve(D, u) @ A3

    def network(rows: int, tau: float = 0.1, c: torch.Tensor = c) -> float | None:
        y = torch.ones(rows, m, dtype=torch.float64)
        return float(rectified(c @ y, tau)) if c.shape[1] == y.shape[0] else None

    by_library = softmax_network(AttentionInput(A1, A2, A3, 0, 0), X, torch.ones(d, m, dtype=torch.float64), 0.1)
    literal = network(d)
    return {
        "attention": float((c - tensor_attention(A1 @ X, A2, A3, scale=1.0)).abs().max()),
        "network": abs(float(by_library) - literal) if literal is not None else float("inf"),
        "without_tau": abs(float(by_library) - (network(d, 0.0) or 0.0)),
        "unnormalised": abs(float(by_library) - (network(d, 0.1, u @ A3) or 0.0)),
        "takes_n": network(n) is not None,
        "normaliser_is_n_by_n": D.shape == (n, n),
        "normaliser_is_d_by_d": D.shape == (d, d),
    }


@claim(
    where="Definition C.6",
    says=r"$F_{\text{exp}}$ is $\phi$ of the sum over $j_0$ and $l$ of "
    r"$\phi_\tau(\langle c_{\text{exp}}(A, x)_{j_0}, y_l \rangle)$, with the attention of Equation (1).",
    cells=cell_grid(shapes, {"n d m": ((4, 3, 2), (9, 5, 3), (6, 8, 1))}),
    errata=(
        typographical(
            printed=r"$y \in \mathbb{R}^{n \times m}$, $y_l \in \mathbb{R}^n$.",
            right=r"$y \in \mathbb{R}^{d \times m}$, $y_l \in \mathbb{R}^d$, as in Definition C.2.",
            why=r"$c_{\text{exp}}(A, x)_{j_0} \in \mathbb{R}^d$. (Theorems D.5, F.5, F.9, F.13 and F.17 print "
            r"$\langle c(A, x), y \rangle$ without the index $j_0$.)",
            at="Definition C.6",
            shown_by="c has no product with a y of n rows",
        ),
        typographical(
            printed=r"$D(X) \in \mathbb{R}^{d \times d}$.",
            right=r"$D(X) \in \mathbb{R}^{n \times n}$.",
            why="The diagonal matrix $D(X)$ has an entry for each of the $n$ rows of $A_1$.",
            at="Equation (1)",
            shown_by="D(X) is not d x d",
        ),
    ),
    neighbours=(
        Neighbour(r"$\phi$ in place of $\phi_\tau$", {"network": "without_tau"}),
        Neighbour("$u$ in place of $c$, without $D(X)$", {"network": "unnormalised"}),
    ),
)
def definition_c_6(cells: Sequence[CellResult], network: str = "network") -> Finding:
    """Compare the literal definition with the library's networks, and check that the printed shapes do not fit."""
    worst = max(max(cell.result["attention"], cell.result[network]) for cell in cells)
    takes_n = sum(bool(cell.result["takes_n"]) for cell in cells)
    d_by_d = sum(bool(cell.result["normaliser_is_d_by_d"]) for cell in cells)
    right = all(cell.result["normaliser_is_n_by_n"] for cell in cells)
    numbers: dict[str, float | str] = {
        "largest difference from the library's network": worst,
        "cells that the printed shapes fit": takes_n + d_by_d,
    }
    shows = {"c has no product with a y of n rows": not takes_n, "D(X) is not d x d": not d_by_d}
    return holds_if(worst <= 1e-11 and right, numbers, shows=shows)
