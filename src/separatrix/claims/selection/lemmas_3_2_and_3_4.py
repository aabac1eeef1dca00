"""Lemmas 3.2 and 3.4 of Wang, Wei, Hsu and Lee: gradient descent from zero stays on two directions, along whole runs.

Lemma 3.2 is an informal version of Lemma D.5, and Lemma 3.4 is part of Lemma E.7. Here gradient descent updates the
full matrices, by autograd through the model, over all subsets and, for Lemma 3.4, over all valid encodings; tokens are
matrices with the first three moments of the Gaussian, as in `plane`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.claims.selection.valid_encodings import loss_of_the_mean, three_moments, valid_encodings
from separatrix.lab.registry import experiment
from separatrix.selection.moments import exact_descent
from separatrix.selection.task import all_subsets


def _strays(M: Tensor, along: Tensor) -> float:
    """The largest entry of a matrix minus its projection on another matrix."""
    part = (M * along).sum() / along.square().sum()
    return float((M - part * along).abs().max())


@experiment(version=1, name="selection.lemma_3_2")
def one_hot_run(T: int, q: int, d: int, lr: float, steps: int, seed: int) -> dict[str, float]:
    """Return the distances of W and V from the lemma's directions, and from others, in a run with one-hot encodings."""
    Ws, Vs, _ = exact_descent(torch.eye(T, dtype=torch.float64), q, d, lr, steps)
    centred, plain, value = (torch.zeros(d + T, d + T).double() for _ in range(3))
    plain[d:, d:] = torch.eye(T, dtype=torch.float64)
    centred[d:, d:] = torch.eye(T, dtype=torch.float64) - 1 / T
    value = torch.eye(d, d + T, dtype=torch.float64)
    return {
        "W": max(_strays(W, centred) for W in Ws),
        "W plain": max(_strays(W, plain) for W in Ws),
        "V": max(_strays(V, value) for V in Vs),
        "C": float((Ws[-1] * centred).sum() / (T - 1)),
        "alpha": float(Vs[-1][0, 0]),
    }


@experiment(version=1, name="selection.lemma_3_4")
def stochastic_run(T: int, q: int, width: int, d: int, lr: float, steps: int, seed: int) -> dict[str, float]:
    """Return the distances of W and V from the directions, in a run over valid encodings with a nonzero query token."""
    stack, subsets = valid_encodings(T, width), all_subsets(T, q)
    W, V = torch.zeros(d + width, d + width).double(), torch.zeros(d, d + width).double()
    plain, value = torch.zeros_like(W), torch.eye(d, d + width, dtype=torch.float64)
    plain[d:, d:] = torch.eye(width, dtype=torch.float64)
    centred = plain.clone()
    centred[d:, d:] -= 1 / width
    x_query = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    X = three_moments(T, d)
    distances = {"W": 0.0, "W plain": 0.0, "V": 0.0}
    for _ in range(steps):
        w, v = W.clone().requires_grad_(), V.clone().requires_grad_()
        losses = [loss_of_the_mean(stack, subset, X, x_query, w, v)[0] for subset in subsets]
        down_w, down_v = torch.autograd.grad(torch.stack(losses).mean(), (w, v))
        W, V = W - lr * down_w, V - lr * down_v
        distances["W"] = max(distances["W"], _strays(W, plain))
        distances["W plain"] = max(distances["W plain"], _strays(W, centred))
        distances["V"] = max(distances["V"], _strays(V, value))
    return {**distances, "C": float(W.diagonal()[d:].mean()), "alpha": float(V[0, 0])}


def _directions(cells: Sequence[CellResult], along: str = "W") -> Finding:
    """Check that no entry of W or V deviates from the directions by as much as 1e-12, in runs that leave zero."""
    strays = max(max(cell.result[along], cell.result["V"]) for cell in cells)
    least = min(min(abs(cell.result["C"]), abs(cell.result["alpha"])) for cell in cells)
    numbers: dict[str, float | str] = {
        "runs": len(cells),
        "largest entry outside the directions": strays,
        "least |C| or |alpha| at the end": least,
    }
    return holds_if(strays <= 1e-12 and least > 1e-6, numbers)


lemma_3_2 = claim(
    where="Lemma 3.2",
    says=r"Along gradient descent from zero initialization with one-hot encodings, $W$ is $C(t) (I - \mathbf{1} "
    r"\mathbf{1}^\top / T)$ on positions and zero elsewhere, and $V$ is $\alpha(t) [I, 0]$.",
    cells=cell_grid(one_hot_run, {"T q d lr": ((9, 2, 1, 0.05), (5, 1, 2, 0.0125), (8, 5, 3, 0.2))}, steps=60),
    neighbours=(Neighbour("$W$ is $C(t) I$ on positions", {"along": "W plain"}),),
)(_directions)


lemma_3_4 = claim(
    where="Lemma 3.4",
    says="Along gradient descent from zero initialization with stochastic encodings, $W$ is $C(t) I$ on positions "
    r"and zero elsewhere, and $V$ is $\alpha(t) [I, 0]$.",
    cells=cell_grid(
        stochastic_run, {"T q width d lr": ((3, 2, 4, 2, 0.5), (4, 1, 3, 1, 0.5), (4, 3, 3, 2, 0.2))}, steps=10
    ),
    neighbours=(Neighbour(r"$W$ is $C(t) (I - \mathbf{1} \mathbf{1}^\top / d_e)$ on positions", {"along": "W plain"}),),
)(_directions)
