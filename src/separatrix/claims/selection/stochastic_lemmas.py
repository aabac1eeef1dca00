"""Appendices E.2, E.3 and E.5 of Wang, Wei, Hsu and Lee: the lemmas on stochastic encodings, by enumeration.

At T = width = 4 every sign matrix whose pairs have |<e_i, e_j>| <= 1/2 can be listed, 26,880 of them, so that the means
over valid encodings are exact. The threshold stands for the restricted isometry that the lemmas condition on: all that
they use of it is that flips, exchanges of coordinates and exchanges of positions keep it, and a bound on the overlaps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim
from separatrix.claims.selection.encodings import leaning
from separatrix.claims.selection.slips import judged, missed
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding, subset_code
from separatrix.selection.isometry import restricted_isometry
from separatrix.selection.moments import exact_gradient
from separatrix.selection.task import all_subsets

T, Q, WIDTH, D = 4, 2, 4, 2
_TIGHT = 1e-12


def valid_encodings() -> Tensor:
    """Every sign matrix of four positions and width 4 with |<e_i, e_j>| <= 1/2: (26880, 4, 4)."""
    rows = torch.tensor(list(itertools.product([-0.5, 0.5], repeat=WIDTH)), dtype=torch.float64)
    stack = rows[torch.tensor(list(itertools.product(range(len(rows)), repeat=T)))]
    gram = stack @ stack.mT - torch.eye(T, dtype=torch.float64)
    return stack[gram.abs().amax((1, 2)) <= 0.5]


def codes(stack: Tensor, subset: Tensor) -> Tensor:
    """e_y of one subset for each encoding of a stack (n, T, width): (n, width)."""
    E_y = stack[:, subset].mT
    ones = torch.ones(len(stack), len(subset), 1, dtype=stack.dtype)
    code: Tensor = (E_y @ torch.linalg.solve(E_y.mT @ E_y, ones)).squeeze(2)
    return code


UPDATES = {
    "update of alpha": Erratum(
        printed="Lemma E.7: alpha + eta s (1 - q alpha s + alpha (1 - q s)^2 / ((T - q) s)), s the mean weight; so too "
        "the remark after it and the head of the proof of Theorem E.6.",
        right="A minus sign before the last term, as in Theorem D.4.",
        why="It is s - alpha |mean of S|^2. With the plus sign the point alpha*, used two lines later, is not "
        "stationary.",
    ),
    "update of V": Erratum(
        printed="Proof of Lemma E.7: V(t + 1) = V(t) + (...), without the rate.",
        right="V(t) + eta (...).",
        why="The step of gradient descent is eta times the gradient.",
    ),
    "first term of C": Erratum(
        printed="Proof of Lemma E.7: Term 1 of the gradient in W without the factor alpha(t).",
        right="With it.",
        why="The gradient in W has V^T before the residual. With orthogonal encodings the second term is zero, and the "
        "first is all of it.",
    ),
}


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
    errata=tuple(UPDATES.values()),
)
def lemma_e7(found: Sequence[Found]) -> Finding:
    """The direction to 1e-12 over all valid encodings; the bounds on C with the overlaps as they are."""
    spread = max(one.result["spread"] for one in found)
    bounds = max(one.result["bounds"] for one in found)
    numbers: dict[str, float | str] = {
        "gradient in W differs from a multiple of the identity by": spread,
        "bounds on the step of C missed by": max(bounds, 0.0),
    }
    finding = judged(found, UPDATES, numbers)
    return finding if max(spread, bounds) < _TIGHT else Finding(Verdict.FAILS_AS_PRINTED, finding.numbers)


EXCHANGE = {
    "what is exchanged": Erratum(
        printed="Proof of Lemma E.14: E' = R_ij E, which exchanges coordinates i and j of every encoding, turns "
        "S_y(i) into S_y(j).",
        right="E' = E P_ij, which exchanges the encodings of positions i and j.",
        why="Exchanging coordinates changes no dot product, so that it leaves S_y(i) as it is (Lemma E.11).",
    ),
}


@experiment(version=1, name="selection.lemma_e14")
def mean_attention(C: float, seed: int) -> dict[str, object]:
    """The mean attention over all valid encodings; and one encoding's, its coordinates or its positions exchanged."""
    stack = valid_encodings()
    uneven, unmoved = 0.0, 0.0
    for subset in all_subsets(T, Q):
        S = torch.softmax(C * (stack @ codes(stack, subset).unsqueeze(2)).squeeze(2), 1)
        inside = torch.zeros(T, dtype=torch.bool).index_fill(0, subset, True)
        mean = S.mean(0)
        uneven = max(uneven, *(float(part.max() - part.min()) for part in (mean[inside], mean[~inside])))
        for changed in (stack * torch.tensor([1.0, -1.0, 1.0, 1.0]), stack[:, :, [1, 0, 2, 3]]):
            again = torch.softmax(C * (changed @ codes(changed, subset).unsqueeze(2)).squeeze(2), 1)
            unmoved = max(unmoved, float((again - S).abs().max()))
    E = near_orthogonal_encoding(6, 10, threshold=0.8, generator=seed, dtype=torch.float64).E
    pairs = []
    for i, j in itertools.combinations(range(2, 6), 2):
        order, places = list(range(6)), list(range(10))
        order[i], order[j] = j, i
        places[i], places[j] = j, i
        wanted = _attention(E, C)[j]
        pairs.append(
            (float((_attention(E[:, places], C)[i] - wanted).abs()), float((_attention(E[order], C)[i] - wanted).abs()))
        )
    return {"uneven": uneven, "unmoved": unmoved, "what is exchanged": missed(pairs)}


def _attention(E: Tensor, C: float) -> Tensor:
    """S_y of the subset of the first two positions."""
    return torch.softmax(C * E @ subset_code(E, torch.tensor([0, 1])), 0)


@claim(
    paper="selection",
    where="Lemma E.14",
    says="The mean attention over valid encodings is the same for all positions in the subset, and the same for all "
    "outside it; flips and exchanges of coordinates change no attention (Lemmas E.10, E.11).",
    cells=lambda: [mean_attention.cell(seed=1, C=C) for C in (0.5, 2.0, 6.0)],
    errata=tuple(EXCHANGE.values()),
)
def lemma_e14(found: Sequence[Found]) -> Finding:
    uneven = max(one.result["uneven"] for one in found)
    unmoved = max(one.result["unmoved"] for one in found)
    numbers: dict[str, float | str] = {"mean attention is uneven by": uneven, "flips and exchanges move it by": unmoved}
    finding = judged(found, EXCHANGE, numbers)
    return finding if max(uneven, unmoved) < _TIGHT else Finding(Verdict.FAILS_AS_PRINTED, finding.numbers)


WEIGHTS = {
    "upper bound of the softmax": Erratum(
        printed="Proof of Lemma E.15: S_y(i) <= e^C / (q + (T - q) e^{-c C}), equal to the bound of the lemma.",
        right="e^C / (q e^C + (T - q) e^{-c C}).",
        why="The q positions of the subset have the score C each. The next line has it.",
    ),
    "bounds of the lemma": Erratum(
        printed="Lemma E.15: 1 / (q + (T - q) e^{-(1 - c) C}) <= S_y(i) <= 1 / (q + (T - q) e^{-(1 + c) C}) with c = "
        "delta / (1 - 2 delta).",
        right="With c = delta sqrt(q) / (1 - delta).",
        why="The overlaps are bounded by Lemma A.3, whose printed bound is false.",
    ),
}


@experiment(version=1, name="selection.lemma_e15")
def weight_bounds(q: int, width: int, C: float, seed: int) -> dict[str, list[float]]:
    """The weight of a position in the subset, for q orthogonal encodings and T - q copies of none: the worst there is.

    One position outside leans on all q, with overlap q c where the isometry constant is c sqrt(q).
    """
    E = leaning(q, width)
    delta = restricted_isometry(E, q).upper
    S = torch.softmax(C * E @ subset_code(E, torch.arange(q)), 0)
    weight, length = float(S[0]), len(E)
    overlap = float((E[-1] @ subset_code(E, torch.arange(q))).abs())

    def outside(c: float) -> float:
        low, high = (1 / (q + (length - q) * math.exp(-(1 - e * c) * C)) for e in (1, -1))
        return max(low - weight, weight - high)

    true = 1 / (q + (length - q) * math.exp(-(1 + overlap) * C))
    forms = [math.exp(C) / (first + (length - q) * math.exp(-overlap * C)) for first in (q, q * math.exp(C))]
    return {
        "upper bound of the softmax": [abs(forms[0] - true), abs(forms[1] - true)],
        "bounds of the lemma": [outside(delta / (1 - 2 * delta)), outside(delta * math.sqrt(q) / (1 - delta))],
    }


@claim(
    paper="selection",
    where="Lemma E.15",
    says="With W = C W*, the attention on a position of the subset lies between two functions of C and delta.",
    cells=lambda: [weight_bounds.cell(seed=0, q=q, width=64, C=C) for q in (2, 3, 4, 6) for C in (0.5, 2.0, 5.0)],
    errata=tuple(WEIGHTS.values()),
)
def lemma_e15(found: Sequence[Found]) -> Finding:
    return judged(found, WEIGHTS)


MEAN = {
    "mean of a product": Erratum(
        printed="Lemma E.2: the mean output over encodings is V Z E[S_y], and the gradient in V has Z E[S_y].",
        right="E[V Z S_y] and E[Z S_y]; they agree where V_e = 0, as along the trajectory from zero.",
        why="Z contains E, so that the mean over E cannot pass it.",
    ),
}


@experiment(version=1, name="selection.lemma_e2")
def mean_outputs(C: float, seed: int) -> dict[str, list[float]]:
    """The gradient in V of equation (4) at a random V, by autograd, against the printed and the right formula.

    Tokens are the 2 T d matrices with +- sqrt(T d) at one entry, whose second moments are the Gaussian's.
    """
    stack = valid_encodings()
    V = torch.randn(D, D + WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()
    ones = torch.eye(T * D, dtype=torch.float64).reshape(-1, D, T) * math.sqrt(T * D)
    X = torch.cat([ones, -ones])
    losses, right, printed = [], [], []
    for subset in all_subsets(T, Q):
        S = torch.softmax(C * (stack @ codes(stack, subset).unsqueeze(2)).squeeze(2), 1)
        Y = torch.zeros(T, dtype=torch.float64).index_fill(0, subset, 1 / Q)
        mean = S.mean(0)
        seen = torch.einsum("nt,ntw->nw", S, stack).mean(0).expand(len(X), -1)
        ZS = torch.cat([X @ mean, seen], 1)
        R = X @ Y - ZS @ V.mT
        losses.append(0.5 * R.square().sum(1).mean())
        right.append(-R.detach().mT @ ZS / len(X))
        for E in stack[:: len(stack) // 64]:
            Z_mean = torch.cat([X @ mean, (mean @ E).expand(len(X), -1)], 1)
            printed.append(-(X @ Y - Z_mean @ V.detach().mT).mT @ Z_mean / len(X))
    torch.stack(losses).mean().backward()
    assert V.grad is not None
    forms = [torch.stack(parts).mean(0) for parts in (printed, right)]
    return {"mean of a product": [float((V.grad - form).abs().max()) for form in forms]}


@claim(
    paper="selection",
    where="Lemma E.2",
    says="The gradients of the stochastic objective are those of Lemma D.1 with the mean of S_y in the place of S_y.",
    cells=lambda: [mean_outputs.cell(seed=0, C=C) for C in (0.0, 2.0)],
    errata=tuple(MEAN.values()),
)
def lemma_e2(found: Sequence[Found]) -> Finding:
    return judged(found, MEAN)
