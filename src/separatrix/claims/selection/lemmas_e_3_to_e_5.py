"""Lemmas E.3, E.4 and E.5 of Wang, Wei, Hsu and Lee: loss and gradients of the stochastic objective on the plane.

The loss of equation (4) is computed through the whole model, over all valid encodings and all subsets, with tokens that
have the Gaussian's first three moments, and differentiated by autograd with every block of W and V free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, claim, holds_if
from separatrix.claims.selection.valid_encodings import (
    SIZES,
    TIGHT,
    codes,
    loss_of_the_mean,
    three_moments,
    valid_encodings,
)
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.task import all_subsets
from separatrix.selection.transformer import ground_truth


@experiment(version=1, name="selection.lemmas_e3_to_e5")
def on_the_plane(T: int, q: int, width: int, d: int, alpha: float, C: float, seed: int) -> dict[str, float]:
    """Return the errors of the three formulas, and of formulas with other means, at V = alpha V*, W = C W*.

    `E.3 outside` and `E.4 outside` take the mean over encodings of the square instead of the square of the mean; `E.5
    inside` has S_y in the residual instead of its mean.
    """
    stack = valid_encodings(T, width)
    on_positions, on_tokens = ground_truth(d, width, dtype=torch.float64)
    W, V = (C * on_positions).requires_grad_(), (alpha * on_tokens).requires_grad_()
    x_query = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    X = three_moments(T, d)
    losses = []
    sums = dict.fromkeys(("square", "outside", "inside y", "norm", "norms"), 0.0)
    blocks = {name: torch.zeros(width, width, dtype=torch.float64) for name in ("mean", "own")}
    subsets = all_subsets(T, q)
    for subset in subsets:
        loss_of_subset, weights = loss_of_the_mean(stack, subset, X, x_query, W, V)
        losses.append(loss_of_subset)
        S = weights.detach()[:, 0]
        mean, Y = S.mean(0), torch.zeros(T, dtype=torch.float64).index_fill(0, subset, 1 / q)
        sums["square"] += float((Y - alpha * mean).square().sum())
        sums["outside"] += float((Y - alpha * S).square().sum(1).mean())
        sums["inside y"] += float(mean[subset].sum()) / q
        sums["norm"] += float(mean.square().sum())
        sums["norms"] += float(S.square().sum(1).mean())
        for name, residual in (("mean", (Y - alpha * mean).expand_as(S)), ("own", Y - alpha * S)):
            inner = S * residual - S * (S * residual).sum(1, keepdim=True)
            blocks[name] += torch.einsum("ntw,nt,nv->wv", stack, inner, codes(stack, subset)) / len(stack)
    loss = torch.stack(losses).mean()
    loss.backward()
    assert W.grad is not None
    assert V.grad is not None
    count = len(subsets)
    means = {name: total / count for name, total in sums.items()}
    in_V = {name: (-means["inside y"] + alpha * means[name]) * on_tokens for name in ("norm", "norms")}
    in_W = {name: -d * alpha * block / count for name, block in blocks.items()}
    value = float(loss.detach())
    return {
        "E.3": abs(value - d / 2 * means["square"]),
        "E.3 outside": abs(value - d / 2 * means["outside"]),
        "E.4": float((V.grad - in_V["norm"]).abs().max()),
        "E.4 outside": float((V.grad - in_V["norms"]).abs().max()),
        "E.5": float((W.grad[d:, d:] - in_W["mean"]).abs().max()),
        "E.5 inside": float((W.grad[d:, d:] - in_W["own"]).abs().max()),
    }


def _cells() -> Iterator[Cell]:
    states = ((0.3, 0.0), (1.4, 1.3), (0.9, 4.0), (1.1, 0.5))
    for (T, q, width), d, (alpha, C) in zip(SIZES, (2, 1, 2, 3), states, strict=True):
        yield on_the_plane.cell(seed=0, T=T, q=q, width=width, d=d, alpha=alpha, C=C)


def _formula(where: str, says: str, right: str, wrong: str, instead: str) -> Claim:
    @claim(where=where, says=says, cells=_cells, neighbours=(Neighbour(instead, {"formula": wrong}),), home=__name__)
    def check(cells: Sequence[CellResult], formula: str = right) -> Finding:
        worst = max(cell.result[formula] for cell in cells)
        return holds_if(worst <= TIGHT, {"states": len(cells), "error of the formula": worst})

    return check


_formula(
    "Lemma E.3",
    "While both matrices keep their directions, the loss is $d/2$ times the mean over subsets of "
    r"$\lVert Y / q - \alpha E[S_y] \rVert^2$.",
    "E.3",
    "E.3 outside",
    "with the mean over encodings outside of the square",
)
_formula(
    "Lemma E.4",
    r"While both matrices keep their directions, the gradient in $V$ is $-E_y[\sum_{i \in y} E[S_y(i)] / q] + \alpha "
    r"E_y \lVert E[S_y] \rVert^2$ times $[I, 0]$.",
    "E.4",
    "E.4 outside",
    r"with $\mathbb{E} \lVert S_y \rVert^2$ in place of $\lVert \mathbb{E}[S_y] \rVert^2$",
)
_formula(
    "Lemma E.5",
    r"While both matrices keep their directions, the position block of the gradient in $W$ is $-d \alpha$ times the "
    r"mean of $E (\operatorname{diag}(S_y) - S_y S_y^\top)(Y / q - \alpha E[S_y]) e_y^\top$.",
    "E.5",
    "E.5 inside",
    "with $S_y$ itself in the residual, as the proof of Lemma E.7 prints it for other blocks",
)
