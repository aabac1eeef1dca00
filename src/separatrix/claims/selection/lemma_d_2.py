"""Lemma D.2 of Wang, Wei, Hsu and Lee: the loss on the plane, where the attention does not depend on the tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.claims.selection.plane import SETTINGS, TIGHT, plane, population
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_loss
from separatrix.selection.task import all_subsets


@experiment(version=2, name="selection.lemma_d2")
def plane_losses(T: int, q: int, d: int, alpha: float, C: float, seed: int) -> dict[str, float]:
    """Compare the loss of Lemma D.2 on the plane, from the attention and in closed form, with the definition.

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


TOKENS = (
    Erratum(
        rank=Rank.STATEMENT,
        at="Lemma D.2",
        shown_by="attention that depends on the tokens",
        printed=r"If $V = \alpha [I_d, 0]$, the loss is $\frac{d}{2} \mathbb{E} \lVert Y / q - \alpha S_y \rVert^2$.",
        right=r"If also the blocks of $W$ that multiply tokens are zero, as Lemma E.3 has it.",
        why=r"The last step takes the means of $X^\top X$, which is $d I_T$, and of $S_y$ separately. That requires "
        "$S_y$ to be independent of $X$, which holds along the trajectory (Lemma D.5).",
    ),
)


@experiment(version=1, name="selection.lemma_d2_tokens")
def dependent_losses(alpha: float, C: float, weight: float, seed: int) -> dict[str, list[float]]:
    """For T = 2, q = d = 1 and one-hot encodings: the relative error of the lemma's formula for the loss.

    Token i adds `weight` x_i to its own score, by an entry of W that multiplies tokens; the second distance is computed
    without this term. Means over the two normal tokens are computed by Gauss-Hermite quadrature.
    """
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    x = np.stack(np.meshgrid(nodes, nodes, indexing="ij"))
    mass = np.outer(masses, masses) / masses.sum() ** 2
    apart = []
    for scale in (weight, 0.0):
        scores = scale * x + np.array([C / 2, -C / 2])[:, None, None]
        S = np.exp(scores - scores.max(0))
        S /= S.sum(0)
        error = np.stack([1 - alpha * S[0], -alpha * S[1]])
        loss = 0.5 * (mass * (x * error).sum(0) ** 2).sum()
        lemma = 0.5 * (mass * (error**2).sum(0)).sum()
        apart.append(abs(float(lemma / loss) - 1))
    return {"attention that depends on the tokens": apart}


@claim(
    where="Lemma D.2",
    says=r"Where $V = \alpha [I, 0]$, the loss is $\frac{d}{2} \mathbb{E} \lVert Y / q - \alpha S_y \rVert^2$.",
    cells=joined(
        cell_grid(plane_losses, SETTINGS),
        cell_grid(dependent_losses, {"alpha C weight": ((1.0, 1.0, 0.5), (0.7, 0.0, 0.2))}),
    ),
    errata=TOKENS,
    neighbours=(
        *as_printed(TOKENS),
        Neighbour("without the factor 1/2", {"formula": "whole"}),
        Neighbour(r"without $\alpha$ before $S_y$", {"formula": "unscaled"}),
    ),
)
def lemma_d_2(cells: Sequence[CellResult], formula: str = "lemma", misprint: str = "") -> Finding:
    """Compare the formula with the loss by its definition, on the plane and with tokens that change the attention."""
    on_the_plane = [cell.result for cell in cells if "closed" in cell.result]
    apart = {
        "lemma": max(result[formula] for result in on_the_plane),
        "closed": max(result["closed"] for result in on_the_plane),
    }
    numbers: dict[str, float | str] = {
        "largest distance to the definition's loss": apart["lemma"],
        "largest distance of d/2 (1/q - 2 alpha s + alpha^2 p)": apart["closed"],
    }
    return compared(cells, TOKENS, numbers, held=max(apart.values()) < TIGHT, misprint=misprint)
