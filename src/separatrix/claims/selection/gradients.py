"""Lemmas D.1, D.2 and D.5 of Wang, Wei, Hsu and Lee: the gradient, the loss, and the plane that descent stays on.

Means over Gaussian tokens are replaced by means over 2 T d matrices, +- sqrt(T d) at one entry and zero elsewhere: they
have the same first three moments, and on the plane the loss is quadratic in X and its gradient at most cubic. So
autograd through the definition, over these matrices and all subsets, gives the population gradient exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim
from separatrix.claims.selection.slips import ROUNDING, judged, missed
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_dynamics, population_loss
from separatrix.selection.encodings import subset_weights
from separatrix.selection.gradient import Inputs, batch_gradient
from separatrix.selection.moments import exact_descent
from separatrix.selection.task import SparseTokenSelection, all_subsets, subset_average
from separatrix.selection.transformer import SelectionTransformer, selection_loss

_TIGHT = 1e-12


def plane(T: int, d: int, alpha: float, C: float) -> tuple[Tensor, Tensor]:
    """W and V of Lemma D.5: C (I - 1 1^T / T) on positions, alpha I on tokens."""
    W = torch.zeros(d + T, d + T, dtype=torch.float64)
    W[d:, d:] = C * (torch.eye(T, dtype=torch.float64) - 1 / T)
    return W, alpha * torch.eye(d, d + T, dtype=torch.float64)


def population(W: Tensor, V: Tensor, E: Tensor, q: int) -> tuple[Tensor, Tensor, Tensor]:
    """(loss, dL/dW, dL/dV) by autograd through the definition, over the matrices above and all subsets."""
    T, d = E.shape[0], V.shape[0]
    ones = torch.eye(T * d, dtype=torch.float64).reshape(-1, T, d) * math.sqrt(T * d)
    y = all_subsets(T, q)
    X = torch.cat([ones, -ones]).repeat_interleave(len(y), 0)
    y = y.repeat(2 * T * d, 1)
    model = SelectionTransformer(d, E.shape[1], dtype=torch.float64)
    with torch.no_grad():
        model.W.copy_(W)
        model.V.copy_(V)
    loss = selection_loss(model(X, y, E), subset_average(X, y))
    loss.backward()
    assert model.W.grad is not None
    assert model.V.grad is not None
    return loss.detach(), model.W.grad, model.V.grad


JACOBIAN = {
    "Jacobian of the softmax": Erratum(
        printed="Proof of Lemma D.1: d softmax(v) = (diag(v) - v v^T) dv.",
        right="(diag(p) - p p^T) dv with p = softmax(v).",
        why="The next line already has S_y in the place of v.",
    ),
}


@experiment(version=1, name="selection.lemma_d1")
def batch_gradients(T: int, q: int, d: int, width: int, seed: int) -> dict[str, object]:
    """Lemma D.1's gradient on a batch, at random W and V, against autograd; and the softmax's Jacobian."""
    source = torch.Generator().manual_seed(seed)
    E = torch.randn(T, width, generator=source, dtype=torch.float64) / math.sqrt(width)
    X, y, target = SparseTokenSelection(T, q, d).batch(32, generator=source, dtype=torch.float64)
    model = SelectionTransformer(d, width, dtype=torch.float64)
    model.randomise(1.0, source)
    loss = selection_loss(model(X, y, E), target)
    loss.backward()
    assert model.W.grad is not None
    assert model.V.grad is not None
    inputs = Inputs(X.mT.contiguous(), E, y, subset_weights(E, y))
    by_formula, dW, dV = batch_gradient(model.W.detach(), model.V.detach(), inputs)
    apart = [by_formula - loss.detach(), dW - model.W.grad[:, d:], dV - model.V.grad, model.W.grad[:, :d]]
    v = torch.randn(T, generator=source, dtype=torch.float64)
    J = torch.autograd.functional.jacobian(lambda u: torch.softmax(u, 0), v)
    p = torch.softmax(v, 0)
    forms = [float((J - (torch.diag(u) - torch.outer(u, u))).abs().max()) for u in (v, p)]
    return {"apart": max(float(gap.abs().max()) for gap in apart), "Jacobian of the softmax": forms}


@claim(
    paper="selection",
    where="Lemma D.1",
    says="The gradients of the loss are -E Z (diag(S) - S S^T) Z^T V^T (X Y/q - V Z S) z^T in W, and "
    "-E (X Y/q - V Z S)(Z S)^T in V.",
    cells=lambda: [
        batch_gradients.cell(seed=0, T=T, q=q, d=d, width=w)
        for T, q, d, w in ((2, 1, 1, 3), (7, 2, 3, 5), (12, 4, 2, 20))
    ],
    errata=tuple(JACOBIAN.values()),
)
def lemma_d1(found: Sequence[Found]) -> Finding:
    """The formula is autograd's gradient; one line of its proof is misprinted."""
    apart = max(one.result["apart"] for one in found)
    finding = judged(found, JACOBIAN, {"largest distance to autograd": apart})
    return finding if apart <= ROUNDING else Finding(Verdict.FAILS_AS_PRINTED, finding.numbers)


@experiment(version=1, name="selection.lemma_d2")
def plane_losses(T: int, q: int, d: int, alpha: float, C: float, seed: int) -> dict[str, float]:
    """Lemma D.2's loss on the plane, from the attention and in closed form, against the definition's."""
    W, V = plane(T, d, alpha, C)
    loss, _, _ = population(W, V, torch.eye(T, dtype=torch.float64), q)
    y = all_subsets(T, q)
    Y = torch.zeros(len(y), T, dtype=torch.float64).scatter(1, y, 1.0)
    S = torch.softmax(Y @ W[d:, d:].mT, 1)
    lemma = d / 2 * (Y / q - alpha * S).square().sum(1).mean()
    closed = float(population_loss(alpha, C, T, q, d))
    return {"lemma": float((lemma - loss).abs()), "closed": abs(closed - float(loss))}


def _plane_cells() -> Iterator[dict[str, float]]:
    for T, q, d in ((5, 1, 1), (6, 2, 2), (8, 3, 2)):
        for alpha, C in ((0.3, 0.0), (1.4, 1.3), (0.9, 4.0)):
            yield {"T": T, "q": q, "d": d, "alpha": alpha, "C": C}


@claim(
    paper="selection",
    where="Lemma D.2",
    says="Where V = alpha [I, 0], the loss is (d/2) E |Y/q - alpha S_y|^2.",
    cells=lambda: [plane_losses.cell(seed=0, **sizes) for sizes in _plane_cells()],
)
def lemma_d2(found: Sequence[Found]) -> Finding:
    apart = {name: max(one.result[name] for one in found) for name in ("lemma", "closed")}
    numbers: dict[str, float | str] = {
        "largest distance to the definition's loss": apart["lemma"],
        "largest distance of d/2 (1/q - 2 alpha s + alpha^2 p)": apart["closed"],
    }
    return Finding(Verdict.HOLDS if max(apart.values()) < _TIGHT else Verdict.FAILS_AS_PRINTED, numbers)


PLANE = {
    "sign of the gradient in V": Erratum(
        printed="Proof of Lemma D.5: the gradient in V is +E (X Y/q - V Z S)(Z S)^T.",
        right="With the minus sign of Lemma D.1.",
        why="The loss is half the square of STS - f. The update rules that follow have the sign of a descent, so that "
        "the slip is made twice.",
    ),
    "sign of the gradient in W": Erratum(
        printed="Proof of Lemma D.5: the position block of the gradient in W is + alpha d s ((1 - alpha)(1 - q s) + "
        "T alpha (1 - q s)^2 / (T - q)) / (T - 1) times I - 1 1^T / T.",
        right="With a minus sign.",
        why="As for V.",
    ),
    "share of the subsets": Erratum(
        printed="Proof of Lemma D.5, case I of W: binom(T-1, q) / binom(T, q) of the subsets contain a position.",
        right="binom(T-1, q-1) / binom(T, q) = q/T.",
        why="One member is chosen, and q - 1 of the T - 1 others remain to be. The next line has q/T.",
    ),
}


@experiment(version=1, name="selection.lemma_d5")
def plane_gradients(T: int, q: int, d: int, alpha: float, C: float, seed: int) -> dict[str, object]:
    """The population gradient on the plane: how far it leaves the plane, and its two numbers against the formulas."""
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
    every = math.comb(T, q)
    return {
        "leaves": leaves,
        "sign of the gradient in V": [abs(float(in_alpha) - down_alpha), abs(float(in_alpha) + down_alpha)],
        "sign of the gradient in W": [abs(float(in_C) - down_C), abs(float(in_C) + down_C)],
        "share of the subsets": missed(
            [(abs(math.comb(T - 1, q) / every - holding), abs(math.comb(T - 1, q - 1) / every - holding))]
        ),
    }


@experiment(version=1, name="selection.exact_descent")
def descents(T: int, q: int, d: int, lr: float, steps: int, seed: int) -> dict[str, float]:
    """Descent of the whole matrices with exact means: how far from the plane it ends, and from the two-number law."""
    W, V, loss = exact_descent(torch.eye(T, dtype=torch.float64), q, d, lr, steps)
    run = population_dynamics(T, q, d, lr, steps)
    off, apart = 0.0, 0.0
    for t in range(steps + 1):
        on_W, on_V = plane(T, d, float(run.alpha[t]), float(run.C[t]))
        off = max(off, float((W[t] - on_W).abs().max()), float((V[t] - on_V).abs().max()))
        apart = max(apart, abs(float(loss[t]) - float(run.loss[t])))
    return {"off": off, "apart": apart, "C": float(run.C[-1])}


def _d5_cells() -> Iterator[Cell]:
    for sizes in _plane_cells():
        yield plane_gradients.cell(seed=0, **sizes)
    for T, q, d, lr in ((5, 2, 1, 0.05), (9, 2, 2, 0.0125), (8, 3, 3, 0.2)):
        yield descents.cell(seed=0, T=T, q=q, d=d, lr=lr, steps=400)


@claim(
    paper="selection",
    where="Lemma D.5",
    says="With one-hot encodings and a zero start, gradient descent on the population loss keeps V on [I, 0] and W on "
    "the projection orthogonal to the constant vector (Lemma 3.2).",
    cells=_d5_cells,
    errata=tuple(PLANE.values()),
)
def lemma_d5(found: Sequence[Found]) -> Finding:
    """The gradient never leaves the plane, and descent of the matrices is the recursion for alpha and C."""
    leaves = max(one.result["leaves"] for one in found if "leaves" in one.result)
    off = max(max(one.result["off"], one.result["apart"]) for one in found if "off" in one.result)
    finding = judged(found, PLANE, {"gradient leaves the plane by": leaves, "descent is off the recursion by": off})
    return finding if max(leaves, off) < _TIGHT else Finding(Verdict.FAILS_AS_PRINTED, finding.numbers)
