"""Lemma E.7 of Wang, Wei, Hsu and Lee: one step with stochastic encodings, over all valid ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, claim
from separatrix.claims.selection.misprint_pairs import compared
from separatrix.claims.selection.valid_encodings import TIGHT, WIDTH, D, Q, T, codes, valid_encodings
from separatrix.lab.registry import experiment
from separatrix.selection.moments import exact_gradient
from separatrix.selection.task import all_subsets

UPDATES = (
    Erratum(
        shown_by="update of alpha",
        printed="Lemma E.7: alpha + eta s (1 - q alpha s + alpha (1 - q s)^2 / ((T - q) s)), s the mean weight; so too "
        "the remark after it and the head of the proof of Theorem E.6.",
        right="A minus sign before the last term, as in Theorem D.4.",
        why="It is s - alpha |mean of S|^2. With the plus sign the point alpha*, used two lines later, is not "
        "stationary.",
    ),
    Erratum(
        shown_by="update of V",
        printed="Proof of Lemma E.7: V(t + 1) = V(t) + (...), without the rate.",
        right="V(t) + eta (...).",
        why="The step of gradient descent is eta times the gradient.",
    ),
    Erratum(
        shown_by="first term of C",
        printed="Proof of Lemma E.7: Term 1 of the gradient in W without the factor alpha(t).",
        right="With it.",
        why="The gradient in W has V^T before the residual. With orthogonal encodings the second term is zero, and the "
        "first is all of it.",
    ),
)


@experiment(version=1, name="selection.lemma_e7")
def stochastic_step(alpha: float, C: float, seed: int) -> dict[str, object]:
    """One step on the loss of the mean (equation (4)) at V = alpha V*, W = C W*, by autograd over all valid encodings.

    `spread` is the largest entry by which the gradient in W is not a multiple of the identity; `bounds` by how much the
    step in C leaves the lemma's interval, with the largest overlap there is in the place of delta / (1 - 2 delta).
    """
    stack, eta = valid_encodings(), 0.5
    W = (C * torch.eye(WIDTH, dtype=torch.float64)).requires_grad_()
    a = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    losses, weights, pull, largest = [], [], [], 0.0
    for subset in all_subsets(T, Q):
        e_y = codes(stack, subset)
        S = torch.softmax(torch.einsum("ntw,wv,nv->nt", stack, W, e_y), 1)
        Y = torch.zeros(T, dtype=torch.float64).index_fill(0, subset, 1.0)
        losses.append(D / 2 * (Y / Q - a * S.mean(0)).square().sum())
        s = S.detach()[:, subset[0]]
        weights.append(s.mean())
        pull.append(((1 - Q * s) * s).mean())
        outside = (stack @ e_y.unsqueeze(2)).squeeze(2)[:, Y == 0]
        largest = max(largest, float(outside.abs().max()))
    torch.stack(losses).mean().backward()
    assert W.grad is not None
    assert a.grad is not None
    mean, product = float(torch.stack(weights).mean()), float(torch.stack(pull).mean())
    moved = -float(W.grad.diagonal().mean())
    middle = D * alpha / WIDTH * (1 - Q * alpha * (T * mean - 1) / (T - Q)) * product
    step = -eta * float(a.grad) / D
    last = alpha * (1 - Q * mean) ** 2 / ((T - Q) * mean)
    forms = {sign: eta * mean * (1 - Q * alpha * mean + sign * last) for sign in (1, -1)}
    ends = sorted(((1 - largest) * middle, (1 + largest) * middle))
    return {
        "spread": float((W.grad + moved * torch.eye(WIDTH, dtype=torch.float64)).abs().max()),
        "overlap": largest,
        "bounds": max(ends[0] - moved, moved - ends[1]),
        "update of alpha": [abs(step - forms[1]), abs(step - forms[-1])],
        "update of V": [abs(step - forms[-1] / eta), abs(step - forms[-1])],
        "first term of C": _one_hot_term(alpha, C),
    }


def _one_hot_term(alpha: float, C: float) -> list[float]:
    """Term 1 without and with alpha, against the gradient where all overlaps are zero."""
    W = torch.zeros(D + T, D + T, dtype=torch.float64)
    W[D:, D:] = C * torch.eye(T, dtype=torch.float64)
    _, dW, _ = exact_gradient(W, alpha * torch.eye(D, D + T, dtype=torch.float64), torch.eye(T, dtype=torch.float64), Q)
    down = -float(dW.diagonal()[D:].mean())
    s = 1 / (Q + (T - Q) * math.exp(-C))
    term = D / T * s * (1 - Q * s) * (1 - Q * alpha * (T * s - 1) / (T - Q))
    return [abs(down - term), abs(down - alpha * term)]


@claim(
    paper="selection",
    where="Lemma E.7",
    says="With stochastic encodings and a zero start, gradient descent keeps V on [I, 0] and W on the identity of the "
    "position block (Lemma 3.4), with an update rule for alpha and bounds on that of C.",
    cells=lambda: [stochastic_step.cell(seed=0, alpha=a, C=C) for a, C in ((0.3, 0.0), (1.4, 1.3), (0.9, 4.0))],
    errata=UPDATES,
)
def lemma_e_7(found: Sequence[Found]) -> Finding:
    """The direction to 1e-12 over all valid encodings; the bounds on C with the overlaps as they are."""
    spread = max(one.result["spread"] for one in found)
    bounds = max(one.result["bounds"] for one in found)
    numbers: dict[str, float | str] = {
        "gradient in W differs from a multiple of the identity by": spread,
        "bounds on the step of C missed by": max(bounds, 0.0),
    }
    return compared(found, UPDATES, numbers, held=max(spread, bounds) < TIGHT)
