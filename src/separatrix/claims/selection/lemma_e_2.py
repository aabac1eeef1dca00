"""Lemma E.2 of Wang, Wei, Hsu and Lee: the gradients of the stochastic objective."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, claim
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.claims.selection.valid_encodings import FIVE, LARGEST, SIZES, attention, valid_encodings
from separatrix.lab.registry import experiment
from separatrix.selection.task import all_subsets

MEAN = (
    Erratum(
        rank=Rank.STATEMENT,
        at="Lemma E.2",
        shown_by="mean of a product",
        printed=r"The mean output over encodings is $V Z \mathbb{E}[S_y]$, and the gradient in $V$ has "
        r"$Z \mathbb{E}[S_y]$.",
        right=r"They are $\mathbb{E}[V Z S_y]$ and $\mathbb{E}[Z S_y]$. These agree with the printed ones where $V_e "
        "= 0$, as along the trajectory from zero initialization.",
        why="$Z$ contains $E$, so that the mean over $E$ cannot be taken of $S_y$ alone.",
    ),
)


@experiment(version=2, name="selection.lemma_e2")
def mean_outputs(T: int, q: int, width: int, d: int, C: float, seed: int) -> dict[str, list[float]]:
    """Compare the gradient in V of equation (4) at a random V, by autograd, with the printed and corrected formula.

    Tokens are the 2 T d matrices with +- sqrt(T d) at one entry, whose second moments are the Gaussian's.
    """
    stack = valid_encodings(T, width)
    V = torch.randn(d, d + width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()
    ones = torch.eye(T * d, dtype=torch.float64).reshape(-1, d, T) * math.sqrt(T * d)
    X = torch.cat([ones, -ones])
    losses, right, printed = [], [], []
    for subset in all_subsets(T, q):
        S = attention(stack, subset, C)
        Y = torch.zeros(T, dtype=torch.float64).index_fill(0, subset, 1 / q)
        mean = S.mean(0)
        pooled = torch.einsum("nt,ntw->nw", S, stack).mean(0).expand(len(X), -1)
        ZS = torch.cat([X @ mean, pooled], 1)
        R = X @ Y - ZS @ V.mT
        losses.append(0.5 * R.square().sum(1).mean())
        right.append(-R.detach().mT @ ZS / len(X))
        for E in stack[:: max(1, len(stack) // 64)]:
            Z_mean = torch.cat([X @ mean, (mean @ E).expand(len(X), -1)], 1)
            printed.append(-(X @ Y - Z_mean @ V.detach().mT).mT @ Z_mean / len(X))
    torch.stack(losses).mean().backward()
    assert V.grad is not None
    forms = [torch.stack(parts).mean(0) for parts in (printed, right)]
    return {"mean of a product": [float((V.grad - form).abs().max()) for form in forms]}


@claim(
    where="Lemma E.2",
    says="The gradients of the stochastic objective are those of Lemma D.1 with the mean of $S_y$ in place of $S_y$.",
    cells=joined(
        cell_grid(
            mean_outputs,
            {"T q width d": [(*size, d) for size, d in zip(SIZES, (1, 3, 2, 2), strict=True)], "C": (0.0, 2.0)},
        ),
        cell_grid(mean_outputs, {"T q width": (LARGEST, FIVE)}, d=2, C=2.0),
    ),
    errata=MEAN,
    neighbours=as_printed(MEAN),
)
def lemma_e_2(cells: Sequence[CellResult], misprint: str = "") -> Finding:
    return compared(cells, MEAN, misprint=misprint)
