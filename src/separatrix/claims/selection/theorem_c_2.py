"""Theorem C.2 of Wang, Wei, Hsu and Lee: a lower bound on the worst-case error of fully-connected nets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.counterexample import fcn_counterexample
from separatrix.selection.fcn import FCN
from separatrix.selection.task import SparseTokenSelection


@experiment(version=2, name="selection.worst_case")
def worst_case(T: int, q: int, d: int, widths: list[int], zero: bool, seed: int) -> dict[str, object]:
    """Return a random or zero net's errors on the proof's pair of inputs, at the proof's scale and scaled."""
    net = FCN(T, q, d, widths, generator=seed, dtype=torch.float64)
    if zero:
        last = [part for part in net.modules() if isinstance(part, nn.Linear)][-1]
        for parameter in last.parameters():
            nn.init.zeros_(parameter)
    pair = fcn_counterexample(net, T, q, d, token_norm=0.5)
    error = max(pair.errors)
    return {"error": error, "scaled": fcn_counterexample(net, T, q, d).loss}


@experiment(version=1, name="selection.enough_neurons")
def enough_neurons(T: int, q: int, d: int, widths: list[int], seed: int) -> dict[str, float]:
    """Return the largest squared error, on 64 inputs with q = T, of d linear neurons that average all tokens."""
    net = FCN(T, q, d, widths, activation=nn.Identity, generator=seed, dtype=torch.float64)
    first, last = (part for part in net.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        first.weight[:, : T * d] = torch.eye(d, dtype=torch.float64).repeat(1, T) / T
        last.weight.copy_(torch.eye(d, dtype=torch.float64))
        batch = SparseTokenSelection(T, q, d).batch(64, generator=seed, dtype=torch.float64)
        return {"scaled": float((net(batch.X, batch.y) - batch.X.mean(1)).square().sum(1).max())}


def _worst_cells() -> Iterator[Cell]:
    for T, q, d, widths in ((6, 2, 2, [9]), (8, 3, 1, [5, 32]), (5, 1, 3, [14, 8, 8]), (4, 4, 2, [1, 6])):
        for zero in (False, True):
            yield worst_case.cell(seed=0, T=T, q=q, d=d, widths=widths, zero=zero)
    for T, d in ((4, 2), (3, 5)):
        yield enough_neurons.cell(seed=0, T=T, q=T, d=d, widths=[d])


def _neurons(cell: CellResult) -> int:
    """The number (T - q + 1) d of neurons with which a net can be exact."""
    sizes = cell.parameters
    return int((sizes["T"] - sizes["q"] + 1) * sizes["d"])


@claim(
    where="Theorem C.2",
    says="A net whose first layer has at most $(T - q + 1) d - 1$ neurons misses some input by at least "
    "$1 / (2 q)$ in squared norm.",
    cells=_worst_cells,
    neighbours=(
        Neighbour("with at most $(T - q + 1) d$ neurons", {"fewer": 0}),
        Neighbour("on some input whose tokens have norm at most 1/2", {"bounded": True}),
    ),
)
def theorem_c_2(cells: Sequence[CellResult], bounded: bool = False, fewer: int = 1) -> Finding:
    """Check that the squared error on the pair of the proof, suitably scaled, reaches 1/(2q) for every net.

    With one more neuron some net is exact: for q = T, d linear neurons that average all tokens. At the proof's own
    scale the squared error does not reach 1/(2q), which was once reported as a misprint. But the theorem does not bound
    the tokens, and the pair can be scaled, so the statement is true as printed, with every constant.
    """
    right = max(cell.result["scaled"] for cell in cells if "error" not in cell.result)
    cells = [cell for cell in cells if cell.parameters["widths"][0] <= _neurons(cell) - fewer]
    least = min(cell.result["scaled"] for cell in cells)
    pairs = [cell for cell in cells if "error" in cell.result]
    norms = min(cell.result["error"] * 2 * cell.parameters["q"] for cell in pairs)
    short = max(1 / (2 * cell.parameters["q"]) - cell.result["error"] ** 2 for cell in pairs)
    numbers: dict[str, float | str] = {
        "least squared error of a pair scaled to q": least,
        "tokens of norm 1/2: least norm of the error, times 2q": norms,
        "tokens of norm 1/2: the square falls short of 1/(2q) by": max(short, 0.0),
        "squared error of a net with (T - q + 1) d neurons, q = T": right,
    }
    note = (
        "With tokens of norm at most 1/2, as in the proof, the norm of the error is at least 1/(2q), and not its "
        "square; without a bound on the tokens the two inputs can be scaled, and the statement is true with every "
        "constant."
    )
    reached = all(cell.result["scaled"] >= 1 / (2 * cell.parameters["q"]) for cell in cells)
    passed = short <= 1e-9 if bounded else reached and least >= 1 - 1e-6 and norms >= 1 - 1e-9
    return holds_if(passed, numbers, note)
