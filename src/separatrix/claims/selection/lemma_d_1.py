"""Lemma D.1 of Wang, Wei, Hsu and Lee: the gradient of the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, typographical
from separatrix.claims.misprint_pairs import ROUNDING, as_printed, compared
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import subset_code, subset_weights
from separatrix.selection.gradient import Inputs, batch_gradient
from separatrix.selection.task import SparseTokenSelection
from separatrix.selection.transformer import SelectionTransformer, selection_loss

JACOBIAN = (
    typographical(
        at="Lemma D.1, proof",
        shown_by="Jacobian of the softmax",
        printed=r"$d \operatorname{softmax}(v) = (\operatorname{diag}(v) - v v^\top) d v$.",
        right=r"$(\operatorname{diag}(p) - p p^\top) d v$ with $p = \operatorname{softmax}(v)$.",
        why="The next line of the proof already has $S_y$ in place of $v$. The proof of Lemma E.2 repeats this.",
    ),
)


@experiment(version=2, name="selection.lemma_d1")
def batch_gradients(T: int, q: int, d: int, width: int, seed: int) -> dict[str, object]:
    """Compare the gradient of Lemma D.1 with autograd at random W and V, and both forms of the softmax Jacobian.

    `apart` is the distance of the library's gradient, `literal` that of the lemma's formula in W, computed example by
    example, and `without` that of the formula without - S S^T.
    """
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
    literal = _in_W(model, X, y, E, target, rank_one=True)
    without = _in_W(model, X, y, E, target, rank_one=False)
    v = torch.randn(T, generator=source, dtype=torch.float64)
    J = torch.autograd.functional.jacobian(lambda u: torch.softmax(u, 0), v)
    p = torch.softmax(v, 0)
    forms = [float((J - (torch.diag(u) - torch.outer(u, u))).abs().max()) for u in (v, p)]
    return {
        "apart": max(float(gap.abs().max()) for gap in apart),
        "literal": float((literal - model.W.grad).abs().max()),
        "without": float((without - model.W.grad).abs().max()),
        "Jacobian of the softmax": forms,
    }


def _in_W(model: SelectionTransformer, X: Tensor, y: Tensor, E: Tensor, target: Tensor, *, rank_one: bool) -> Tensor:
    """The mean of -Z (diag(S) - S S^T) Z^T V^T (target - V Z S) z^T over a batch, as printed; or without - S S^T."""
    with torch.no_grad():
        S, V = model.attention(X, y, E), model.V.detach()
    total = torch.zeros_like(model.W.detach())
    for tokens, s, code, right in zip(X, S, subset_code(E, y), target, strict=True):
        Z, z = torch.cat([tokens.mT, E.mT]), torch.cat([torch.zeros_like(right), code])
        J = torch.diag(s) - (torch.outer(s, s) if rank_one else 0)
        total -= torch.outer(Z @ J @ Z.mT @ V.mT @ (right - V @ Z @ s), z)
    return total / len(X)


@claim(
    where="Lemma D.1",
    says=r"The gradients of the loss are $-\mathbb{E} Z (\operatorname{diag}(S) - S S^\top) Z^\top V^\top (X Y / q "
    r"- V Z S) z^\top$ in $W$, and $-\mathbb{E} (X Y / q - V Z S)(Z S)^\top$ in $V$.",
    cells=cell_grid(batch_gradients, {"T q d width": ((2, 1, 1, 3), (7, 2, 3, 5), (12, 4, 2, 20))}),
    errata=JACOBIAN,
    neighbours=(*as_printed(JACOBIAN), Neighbour(r"the gradient in $W$ without $- S S^\top$", {"formula": "without"})),
)
def lemma_d_1(cells: Sequence[CellResult], misprint: str = "", formula: str = "literal") -> Finding:
    """Check that the formula and the library agree with autograd; one line of the proof is misprinted."""
    apart = max(max(cell.result["apart"], cell.result[formula]) for cell in cells)
    return compared(cells, JACOBIAN, {"largest distance to autograd": apart}, held=apart <= ROUNDING, misprint=misprint)
