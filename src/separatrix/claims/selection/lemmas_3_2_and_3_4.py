"""Lemmas 3.2 and 3.4 of Wang, Wei, Hsu and Lee: gradient descent from zero keeps two directions, along whole runs.

Lemma 3.2 is Lemma D.5, informally, and Lemma 3.4 is part of Lemma E.7. Here the whole matrices descend, by autograd
through the model, over all subsets and, for Lemma 3.4, over all valid encodings; tokens are matrices with the first
three moments of the Gaussian, as in `plane`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.claims.selection.valid_encodings import codes, valid_encodings
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.moments import exact_descent
from separatrix.selection.task import all_subsets


def _strays(M: Tensor, along: Tensor) -> float:
    """The largest entry of what is left of a matrix beside its part along another."""
    part = (M * along).sum() / along.square().sum()
    return float((M - part * along).abs().max())


@experiment(version=1, name="selection.lemma_3_2")
def one_hot_run(T: int, q: int, d: int, lr: float, steps: int, seed: int) -> dict[str, float]:
    """A run with one-hot encodings: how far W and V stray from the lemma's directions, and from others."""
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
    """A run over all valid encodings, with a token of the query that is not zero: how far W and V stray."""
    stack, subsets = valid_encodings(T, width), all_subsets(T, q)
    W, V = torch.zeros(d + width, d + width).double(), torch.zeros(d, d + width).double()
    plain, value = torch.zeros_like(W), torch.eye(d, d + width, dtype=torch.float64)
    plain[d:, d:] = torch.eye(width, dtype=torch.float64)
    centred = plain.clone()
    centred[d:, d:] -= 1 / width
    x_query = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    one = torch.eye(T * d, dtype=torch.float64).reshape(-1, T, d) * math.sqrt(T * d)
    X = torch.cat([one, -one])
    all_codes = [codes(stack, subset) for subset in subsets]
    found = {"W": 0.0, "W plain": 0.0, "V": 0.0}
    for _ in range(steps):
        w, v = W.clone().requires_grad_(), V.clone().requires_grad_()
        losses = []
        for subset, e_y in zip(subsets, all_codes, strict=True):
            U = torch.cat([x_query.expand(len(stack), d), e_y], 1) @ w.mT
            logits = torch.einsum("nd,xtd->nxt", U[:, :d], X) + torch.einsum("nw,ntw->nt", U[:, d:], stack)[:, None]
            S = torch.softmax(logits, 2)
            pooled = torch.cat([torch.einsum("nxt,xtd->nxd", S, X), torch.einsum("nxt,ntw->nxw", S, stack)], 2).mean(0)
            losses.append(0.5 * (X[:, subset].mean(1) - pooled @ v.mT).square().sum(1).mean())
        down_w, down_v = torch.autograd.grad(torch.stack(losses).mean(), (w, v))
        W, V = W - lr * down_w, V - lr * down_v
        found["W"] = max(found["W"], _strays(W, plain))
        found["W plain"] = max(found["W plain"], _strays(W, centred))
        found["V"] = max(found["V"], _strays(V, value))
    return {**found, "C": float(W.diagonal()[d:].mean()), "alpha": float(V[0, 0])}


def _one_hot_cells() -> Iterator[Cell]:
    for T, q, d, lr in ((9, 2, 1, 0.05), (5, 1, 2, 0.0125), (8, 5, 3, 0.2)):
        yield one_hot_run.cell(seed=0, T=T, q=q, d=d, lr=lr, steps=60)


def _stochastic_cells() -> Iterator[Cell]:
    for T, q, width, d, lr in ((3, 2, 4, 2, 0.5), (4, 1, 3, 1, 0.5), (4, 3, 3, 2, 0.2)):
        yield stochastic_run.cell(seed=0, T=T, q=q, width=width, d=d, lr=lr, steps=10)


def _directions(found: Sequence[Found], along: str) -> Finding:
    """No entry of W or V may stray by 1e-12, in runs that leave zero."""
    strays = max(max(one.result[along], one.result["V"]) for one in found)
    least = min(min(abs(one.result["C"]), abs(one.result["alpha"])) for one in found)
    numbers: dict[str, float | str] = {
        "runs": len(found),
        "largest entry beside the directions": strays,
        "least |C| or |alpha| at the end": least,
    }
    return holds_if(strays <= 1e-12 and least > 1e-6, numbers)


@claim(
    paper="selection",
    where="Lemma 3.2",
    says=r"Along gradient descent from zero with one-hot encodings, $W$ is $C(t) (I - \mathbf{1} "
    r"\mathbf{1}^\top / T)$ on positions and zero elsewhere, and $V$ is $\alpha(t) [I, 0]$.",
    cells=_one_hot_cells,
    neighbours=(Neighbour("$W$ is $C(t) I$ on positions", {"along": "W plain"}),),
)
def lemma_3_2(found: Sequence[Found], along: str = "W") -> Finding:
    return _directions(found, along)


@claim(
    paper="selection",
    where="Lemma 3.4",
    says="Along gradient descent from zero with stochastic encodings, $W$ is $C(t) I$ on positions and "
    r"zero elsewhere, and $V$ is $\alpha(t) [I, 0]$.",
    cells=_stochastic_cells,
    neighbours=(Neighbour(r"$W$ is $C(t) (I - \mathbf{1} \mathbf{1}^\top / d_e)$ on positions", {"along": "W plain"}),),
)
def lemma_3_4(found: Sequence[Found], along: str = "W") -> Finding:
    return _directions(found, along)
