"""Equation (6) of Wang, Wei, Hsu and Lee: gradient descent against its differential equation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from separatrix.claims.ledger import Finding, Found, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_dynamics, population_loss
from separatrix.selection.flow import population_flow


@experiment(version=1, name="selection.equation_6")
def flow_gap(T: int, q: int, d: int, lr: float, span: float, seed: int) -> dict[str, float]:
    """How far the recursion is from equation (6), over a span of eta t; and equation (6)'s factor from ours."""
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
        "loss": float(population_loss(flow.alpha[-1], flow.C[-1], T, q, d)),
    }


_RATES = (0.05, 0.025, 0.0125)


@claim(
    paper="selection",
    where="Equation (6)",
    says="Along the trajectory gradient descent is approximately an ordinary differential equation for alpha and C.",
    cells=lambda: [flow_gap.cell(seed=0, T=20, q=2, d=1, lr=lr, span=2000.0) for lr in _RATES],
)
def equation_6(found: Sequence[Found]) -> Finding:
    """The distance halves with the rate, as that of Euler's method from its equation does."""
    gaps = [one.result["gap"] for one in sorted(found, key=lambda one: -one.parameters["lr"])]
    ratios = [later / before for before, later in itertools.pairwise(gaps)]
    factor = max(one.result["factor"] for one in found)
    numbers: dict[str, float | str] = {
        "distance at the smallest rate": gaps[-1],
        "distances when the rate is halved": ", ".join(f"{ratio:.3f}" for ratio in ratios),
        "its last factor against ours": factor,
    }
    held = all(0.4 < ratio < 0.6 for ratio in ratios) and factor < 1e-9
    return holds_if(held, numbers)
