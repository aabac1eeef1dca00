"""Equation (6) of Wang, Wei, Hsu and Lee: gradient descent against its differential equation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_dynamics, population_loss
from separatrix.selection.flow import population_flow


@experiment(version=2, name="selection.equation_6")
def flow_gap(T: int, q: int, d: int, lr: float, span: float, seed: int) -> dict[str, float]:
    """Return the distances of the recursion from equation (6) over a span of eta t, and of two forms of its last
    factor.
    """
    steps = round(span / lr)
    run = population_dynamics(T, q, d, lr, steps)
    at = np.linspace(0, steps, 65).astype(np.int64)[1:]
    flow = population_flow(T, q, d, (lr * at).tolist())
    s = 1 / (q + (T - q) * np.exp(-flow.C))
    printed = 1 + q * flow.alpha / (T - q) * (1 - T * s)
    ours = 1 - flow.alpha + flow.alpha * T / (T - q) * (1 - q * s)
    return {
        "gap": float(max(np.abs(run.alpha[at] - flow.alpha).max(), np.abs(run.C[at] - flow.C).max())),
        "factor": float(np.abs(printed - ours).max()),
        "factor_of_less": float(np.abs(1 + q * flow.alpha / (T - q) * (1 - (T - 1) * s) - ours).max()),
        "loss": float(population_loss(flow.alpha[-1], flow.C[-1], T, q, d)),
    }


_RATES = (0.05, 0.025, 0.0125)
_SETTINGS = ((20, 2, 1, 600.0), (9, 2, 3, 20.0), (16, 3, 2, 60.0), (60, 2, 2, 100.0), (40, 9, 1, 200.0))
"""Settings (T, q, d, span), with q from 2 to just below T/4, as Theorem 3.1 requires."""


@claim(
    where="Equation (6)",
    says=r"The trajectory of gradient descent approximately follows an ordinary differential equation for $\alpha$ "
    "and $C$.",
    cells=cell_grid(
        flow_gap, {"T q d span lr": [(T, q, d, span, lr / d**2) for T, q, d, span in _SETTINGS for lr in _RATES]}
    ),
    neighbours=(
        Neighbour("the distance falls as the square of the learning rate", {"power": 2}),
        Neighbour("its last factor has $T - 1$ in place of $T$", {"formula": "factor_of_less"}),
    ),
)
def equation_6(cells: Sequence[CellResult], power: int = 1, formula: str = "factor") -> Finding:
    """Check that the distance is halved when the rate is halved, as for Euler's method."""
    ratios, gaps = [], []
    for T, q, d, _ in _SETTINGS:
        mine = [cell for cell in cells if all(cell.parameters[x] == v for x, v in (("T", T), ("q", q), ("d", d)))]
        fall = [cell.result["gap"] for cell in sorted(mine, key=lambda cell: -cell.parameters["lr"])]
        ratios += [later / before for before, later in itertools.pairwise(fall)]
        gaps.append(fall[-1])
    factor = max(cell.result[formula] for cell in cells)
    numbers: dict[str, float | str] = {
        "largest distance at the smallest rate": max(gaps),
        "distances when the rate is halved": ", ".join(f"{ratio:.3f}" for ratio in ratios),
        "difference of the last factors": factor,
    }
    passed = all(abs(ratio - 0.5**power) < 0.1 for ratio in ratios) and factor < 1e-9
    return holds_if(passed, numbers)
