"""Lemma D.2 of Wang, Wei, Hsu and Lee: the loss on the plane."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.claims.selection.plane import TIGHT, plane, plane_sizes, population
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_loss
from separatrix.selection.task import all_subsets


@experiment(version=2, name="selection.lemma_d2")
def plane_losses(T: int, q: int, d: int, alpha: float, C: float, seed: int) -> dict[str, float]:
    """Lemma D.2's loss on the plane, from the attention and in closed form, against the definition's.

    `whole` is the distance without the factor 1/2, `unscaled` that without alpha before S_y.
    """
    W, V = plane(T, d, alpha, C)
    loss, _, _ = population(W, V, torch.eye(T, dtype=torch.float64), q)
    y = all_subsets(T, q)
    Y = torch.zeros(len(y), T, dtype=torch.float64).scatter(1, y, 1.0)
    S = torch.softmax(Y @ W[d:, d:].mT, 1)
    lemma = d / 2 * (Y / q - alpha * S).square().sum(1).mean()
    closed = float(population_loss(alpha, C, T, q, d))
    unscaled = d / 2 * (Y / q - S).square().sum(1).mean()
    return {
        "lemma": float((lemma - loss).abs()),
        "closed": abs(closed - float(loss)),
        "whole": float((2 * lemma - loss).abs()),
        "unscaled": float((unscaled - loss).abs()),
    }


@claim(
    paper="selection",
    where="Lemma D.2",
    says=r"Where $V = \alpha [I, 0]$, the loss is $\frac{d}{2} \mathbb{E} \lVert Y / q - \alpha S_y \rVert^2$.",
    cells=lambda: [plane_losses.cell(seed=0, **sizes) for sizes in plane_sizes()],
    neighbours=(
        Neighbour("without the factor 1/2", {"formula": "whole"}),
        Neighbour(r"without $\alpha$ before $S_y$", {"formula": "unscaled"}),
    ),
)
def lemma_d_2(found: Sequence[Found], formula: str = "lemma") -> Finding:
    apart = {
        "lemma": max(one.result[formula] for one in found),
        "closed": max(one.result["closed"] for one in found),
    }
    numbers: dict[str, float | str] = {
        "largest distance to the definition's loss": apart["lemma"],
        "largest distance of d/2 (1/q - 2 alpha s + alpha^2 p)": apart["closed"],
    }
    return holds_if(max(apart.values()) < TIGHT, numbers)
