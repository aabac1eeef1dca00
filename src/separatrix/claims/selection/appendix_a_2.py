"""Appendix A.2 of Wang, Wei, Hsu and Lee: one query against T queries."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.moments import exact_gradient
from separatrix.selection.task import SparseTokenSelection
from separatrix.selection.transformer import SelectionTransformer

_SIGMAS = 6.0
"""The accepted distance in standard errors; a normal variable exceeds it with probability 2e-9."""


@experiment(version=2, name="selection.one_query_or_many")
def one_or_many(T: int, q: int, d: int, width: int, samples: int, seed: int) -> dict[str, float]:
    """Compare the sampled loss and slope of the T-query task with T times those of the one-query task.

    The position block of W is random and its token rows are zero, so that the loss and gradient of the one-query task
    are exact means over all subsets and all tokens. A slope is the derivative along a random direction of (W, V).
    ``loss_ratio`` is the mean loss divided by T times the one-query loss, and ``loss_error`` its standard error.
    """
    source = torch.Generator().manual_seed(seed)
    E = near_orthogonal_encoding(T, width, threshold=0.8, generator=source, dtype=torch.float64).E
    W, V = torch.zeros(d + width, d + width).double(), torch.zeros(d, d + width).double()
    W[d:, d:].normal_(generator=source)
    V.normal_(generator=source)
    along = torch.randn(W.shape, generator=source).double(), torch.randn(V.shape, generator=source).double()
    loss, dW, dV = exact_gradient(W, V, E, q)
    slope = (dW * along[0]).sum() + (dV * along[1]).sum()
    X, y, target = SparseTokenSelection(T, q, d).original_batch(samples, generator=source, dtype=torch.float64)
    model = SelectionTransformer(d, width, dtype=torch.float64)

    # Differentiating with respect to t and then to the weight v of an input gives the slope of each input.
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    v = torch.ones(samples, dtype=torch.float64, requires_grad=True)
    moved = {"W": W + t * along[0], "V": V + t * along[1]}
    answers = torch.func.functional_call(model, moved, (X.unsqueeze(1).expand(-1, T, -1, -1), y, E))
    drawn: Tensor = 0.5 * (answers - target).square().sum((1, 2))
    (summed,) = torch.autograd.grad((drawn * v).sum(), t, create_graph=True)
    (slopes,) = torch.autograd.grad(summed, v)
    ratios = {"loss": (drawn.detach(), loss), "slope": (slopes, slope)}
    result = {}
    for name, (values, exact) in ratios.items():
        result[f"{name}_ratio"] = float(values.mean() / (T * exact))
        result[f"{name}_error"] = float(values.std() / samples**0.5 / (T * exact).abs())
    return result


@claim(
    where="Appendix A.2",
    says="On the original task, with $T$ queries in each sequence, the population loss is $T$ times that of the task "
    "with one query, so that gradient descent differs only in the scale of its learning rate.",
    cells=cell_grid(one_or_many, {"T q d width": ((3, 1, 1, 8), (5, 2, 2, 12), (7, 3, 1, 16))}, samples=4000),
    neighbours=(Neighbour("$T - 1$ times", {"fewer": 1}),),
)
def appendix_a_2(cells: Sequence[CellResult], fewer: int = 0) -> Finding:
    """Check that the mean loss and slope are within six standard errors of (T - fewer) times those of one query."""
    far = max(
        abs(cell.result[f"{name}_ratio"] - (1 - fewer / cell.parameters["T"])) / cell.result[f"{name}_error"]
        for cell in cells
        for name in ("loss", "slope")
    )
    apart = max(abs(cell.result["loss_ratio"] - 1) for cell in cells)
    numbers: dict[str, float | str] = {
        "largest distance, in standard errors": far,
        "largest |ratio of the losses / T - 1|": apart,
    }
    return holds_if(far <= _SIGMAS, numbers)
