"""Equation (4) of Wang, Wei, Hsu and Lee: the loss of the mean, and the mean of the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.selection.overlap_table import overlap_table
from separatrix.selection.stochastic_dynamics import OBJECTIVES, stationary_loss, stochastic_dynamics


@experiment(version=1, name="selection.two_objectives")
def two_objectives(
    T: int, q: int, d: int, width: int, threshold: float, encodings: int, seed: int
) -> dict[str, object]:
    """Follow the paper's run by the recursion: rate 1 for 50,000 steps, then 1/3 for 50,000 steps, on either objective.

    `slope` is the increment of the inverse loss per step at the end; `predicted` is 4 mu^2 eta / width, where mu is the
    measured rate -d log L / (2 dC) there. `error` is the relative standard error of the tabulated w at the end of the
    run.
    """
    table = overlap_table(
        T, q, width, threshold=threshold, encodings=encodings, subsets=16, generator=seed, largest_C=16.0
    )
    at = np.unique(np.geomspace(1, 100_000, 161).astype(np.int64))
    result: dict[str, object] = {"step": at}
    for objective in OBJECTIVES:
        first = stochastic_dynamics(table, d, 1.0, 50_000, objective=objective)
        start = (float(first.alpha[-1]), float(first.C[-1]))
        second = stochastic_dynamics(table, d, 1 / 3, 50_000, objective=objective, start=start)
        loss, C = (
            np.concatenate([getattr(part, name)[skip:] for part, skip in ((first, 0), (second, 1))])
            for name in ("loss", "C")
        )
        _, mu = stationary_loss(table, C[-1:], d, objective=objective)
        gained = (1 / loss[-1] - 1 / loss[-10_001]) / 10_000
        result[objective] = {
            "loss": loss[at],
            "C": C[at],
            "last": float(loss[-1]),
            "slope": float(gained),
            "predicted": float(4 * mu[0] ** 2 / (3 * width)),
            "error": float(np.interp(C[-1], table.C, table.w_se / table.w)),
        }
    return result


@claim(
    where="Equation (4)",
    part="two objectives",
    says="Training with one fresh encoding at each step minimises the mean of the loss over encodings. This is "
    "above the loss of the mean output, which is that of equation (4). Both fall as $1/t$.",
    cells=lambda: [two_objectives.cell(seed=0, T=200, q=3, d=5, width=170, threshold=0.4, encodings=16)],
    figures=("two_objectives",),
    neighbours=(
        Neighbour(r"the inverse of the loss grows by $8 \mu^2 \eta / d_e$ at each step", {"factor": 2.0}),
        Neighbour("the mean of the loss is below the loss of the mean", {"above": -1}),
    ),
)
def equation_4(cells: Sequence[CellResult], factor: float = 1.0, above: int = 1) -> Finding:
    """Check Jensen's inequality along the run, and compare the slope of the inverse loss with 4 mu^2 eta / width."""
    result = cells[0].result
    mean, of_mean = (result[objective] for objective in OBJECTIVES)
    numbers: dict[str, float | str] = {
        "mean of the loss after 100,000 steps": mean["last"],
        "loss of the mean after 100,000 steps": of_mean["last"],
        "increment of the inverse loss per step": mean["slope"],
        "4 mu^2 eta / d_e": mean["predicted"],
        "relative standard error of the table": mean["error"],
    }
    passed = above * (mean["last"] - of_mean["last"]) > 0 and all(
        abs(curve["slope"] / (factor * curve["predicted"]) - 1) < 0.1 for curve in (mean, of_mean)
    )
    return holds_if(passed, numbers)
