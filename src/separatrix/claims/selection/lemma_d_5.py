"""Lemma D.5 of Wang, Wei, Hsu and Lee: gradient descent stays on a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, typographical
from separatrix.claims.misprint_pairs import as_printed, compared, missed
from separatrix.claims.selection.plane import SETTINGS, TIGHT, plane, population
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_dynamics
from separatrix.selection.moments import exact_descent
from separatrix.selection.task import all_subsets

PLANE = (
    typographical(
        at="Lemma D.5, proof",
        slip="sign of the gradients",
        shown_by="sign of the gradient in V",
        printed=r"The gradient in $V$ is $+\mathbb{E} (X Y / q - V Z S)(Z S)^\top$.",
        right="It has the minus sign of Lemma D.1.",
        why=r"The loss is half the square of $\text{STS} - f$. The update rules that follow have the right sign for "
        "a descent, so that a second sign error cancels this one.",
    ),
    typographical(
        at="Lemma D.5, proof",
        slip="sign of the gradients",
        shown_by="sign of the gradient in W",
        printed=r"The position block of the gradient in $W$ is $+\frac{\alpha d s}{T - 1} \left( (1 - \alpha)(1 - q "
        r"s) + \frac{T \alpha (1 - q s)^2}{T - q} \right)$ times $I - \mathbf{1} \mathbf{1}^\top / T$.",
        right="With a minus sign.",
        why="As for $V$.",
    ),
    typographical(
        at="Lemma D.5, proof, case I of W",
        shown_by="share of the subsets",
        printed=r"$\binom{T - 1}{q} / \binom{T}{q}$ of the subsets contain a position.",
        right=r"$\binom{T - 1}{q - 1} / \binom{T}{q} = q / T$.",
        why="One member is given, and $q - 1$ of the $T - 1$ others remain to be chosen. The next line has $q / T$.",
    ),
)


@experiment(version=1, name="selection.lemma_d5")
def plane_gradients(T: int, q: int, d: int, alpha: float, C: float, seed: int) -> dict[str, object]:
    """Return the distance of the population gradient from the plane, and of its two coordinates from the formulas."""
    W, V = plane(T, d, alpha, C)
    _, dW, dV = population(W, V, torch.eye(T, dtype=torch.float64), q)
    along_W, along_V = plane(T, d, 1.0, 1.0)
    in_C, in_alpha = (dW * along_W).sum() / (T - 1), (dV * along_V).sum() / d
    leaves = max(float((dW - in_C * along_W).abs().max()), float((dV - in_alpha * along_V).abs().max()))
    s = 1 / (q + (T - q) * math.exp(-C))
    w = 1 - q * s
    down_alpha = (1 - alpha * q * s) * s - alpha * w**2 / (T - q)
    down_C = alpha * d / (T - 1) * s * ((1 - alpha) * w + T * alpha / (T - q) * w**2)
    holding = float((all_subsets(T, q) == 0).any(1).double().mean())
    subsets = math.comb(T, q)
    return {
        "leaves": leaves,
        "sign of the gradient in V": [abs(float(in_alpha) - down_alpha), abs(float(in_alpha) + down_alpha)],
        "sign of the gradient in W": [abs(float(in_C) - down_C), abs(float(in_C) + down_C)],
        "share of the subsets": missed(
            [(abs(math.comb(T - 1, q) / subsets - holding), abs(math.comb(T - 1, q - 1) / subsets - holding))]
        ),
    }


@experiment(version=2, name="selection.exact_descent")
def descents(T: int, q: int, d: int, lr: float, steps: int, seed: int) -> dict[str, float]:
    """Run descent on the full matrices with exact means; return its distances from the plane and the recursion.

    `off_identity` is the distance of the position block of W from all multiples of I instead of I - 1 1^T / T.
    """
    W, V, loss = exact_descent(torch.eye(T, dtype=torch.float64), q, d, lr, steps)
    run = population_dynamics(T, q, d, lr, steps)
    off, apart, off_identity = 0.0, 0.0, 0.0
    for t in range(steps + 1):
        block = W[t][d:, d:]
        off_identity = max(off_identity, float((block - block.diag().mean() * torch.eye(T)).abs().max()))
        on_W, on_V = plane(T, d, float(run.alpha[t]), float(run.C[t]))
        off = max(off, float((W[t] - on_W).abs().max()), float((V[t] - on_V).abs().max()))
        apart = max(apart, abs(float(loss[t]) - float(run.loss[t])))
    return {"off": off, "off_identity": off_identity, "apart": apart, "C": float(run.C[-1])}


@claim(
    where="Lemma D.5",
    says="With one-hot encodings and zero initialization, gradient descent on the population loss keeps $V$ on $[I, "
    "0]$ and $W$ on the projection orthogonal to the constant vector (Lemma 3.2).",
    cells=joined(
        cell_grid(plane_gradients, SETTINGS),
        cell_grid(descents, {"T q d lr": ((5, 2, 1, 0.05), (9, 2, 2, 0.0125), (8, 3, 3, 0.2))}, steps=400),
    ),
    errata=PLANE,
    neighbours=(
        *as_printed(PLANE),
        Neighbour(r"keeps $W$ on $I$ for $I - \mathbf{1} \mathbf{1}^\top / T$", {"distance": "off_identity"}),
    ),
)
def lemma_d_5(cells: Sequence[CellResult], misprint: str = "", distance: str = "off") -> Finding:
    """Check that the gradient stays on the plane, and that descent follows the recursion for alpha and C.

    The argument `distance` names the distance of the descent that must vanish.
    """
    leaves = max(cell.result["leaves"] for cell in cells if "leaves" in cell.result)
    off = max(max(cell.result[distance], cell.result["apart"]) for cell in cells if "off" in cell.result)
    numbers: dict[str, float | str] = {
        "largest component of the gradient outside the plane": leaves,
        "largest difference of gradient descent from the recursion": off,
    }
    return compared(cells, PLANE, numbers, held=max(leaves, off) < TIGHT, misprint=misprint)
