"""Lemma E.2 of Wang, Wei, Hsu and Lee: the gradients of the stochastic objective."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, claim
from separatrix.claims.selection.misprint_pairs import compared
from separatrix.claims.selection.valid_encodings import WIDTH, D, Q, T, codes, valid_encodings
from separatrix.lab.registry import experiment
from separatrix.selection.task import all_subsets

MEAN = (
    Erratum(
        shown_by="mean of a product",
        printed="Lemma E.2: the mean output over encodings is V Z E[S_y], and the gradient in V has Z E[S_y].",
        right="E[V Z S_y] and E[Z S_y]; they agree where V_e = 0, as along the trajectory from zero.",
        why="Z contains E, so that the mean over E cannot pass it.",
    ),
)


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
    errata=MEAN,
)
def lemma_e_2(found: Sequence[Found]) -> Finding:
    return compared(found, MEAN)
