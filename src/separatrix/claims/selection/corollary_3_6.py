"""Corollary 3.6 of Wang, Wei, Hsu and Lee: from sequences of length T_1 to longer ones.

With orthogonal encodings of enough dimensions the computation is exact: C and alpha come from training at T_1, by
equation (6), and the loss at T_2 from Lemma D.2. With x = (T_2 - q) / (T_1 - q) and rho_i = q / (T_i - q), late in
training

    L_{T_2} / L_{T_1} -> ((x - 1)^2 + rho_2 x^2) / rho_1,

of order (T_1 / q)(x - 1)^2: alpha is above 1 by the amount that compensates for the attention lost at T_1, and at T_2
more attention is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, Verdict, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_loss
from separatrix.selection.flow import population_flow
from separatrix.selection.laws import plateau_time


@experiment(version=1, name="selection.length_ratio")
def length_ratio(T1: int, times: list[float], q: int, d: int, seed: int) -> dict[str, object]:
    """Return the losses at T_1 and at multiples of it along training at T_1, the last ratio, and its limit."""
    run = population_flow(T1, q, d, np.geomspace(2, 1e4, 41) * plateau_time(T1, q, d))
    rows: dict[str, list[float]] = {"T2": [], "ratio": [], "limit": [], "corollary": []}
    longer = []
    for T2 in (round(factor * T1) for factor in times):
        losses = population_loss(run.alpha, run.C, T2, q, d)
        x, rho1, rho2 = (T2 - q) / (T1 - q), q / (T1 - q), q / (T2 - q)
        row = (T2, float(losses[-1] / run.loss[-1]), ((x - 1) ** 2 + rho2 * x**2) / rho1, (T2 / T1) ** 2)
        for column, value in zip(rows.values(), row, strict=True):
            column.append(value)
        longer.append(losses)
    return {**rows, "loss": run.loss, "longer": np.stack(longer)}


TIMES = (1.25, 1.5, 2.0, 4.0)


@claim(
    where="Corollary 3.6",
    says=r"Once the training loss at $T_1$ is at most $\epsilon$, the loss at $T_2$ is at most "
    r"$O(T_2^2 \epsilon / T_1^2)$.",
    cells=lambda: [length_ratio.cell(seed=0, T1=T1, times=list(TIMES), q=3, d=5) for T1 in (50, 200, 1000, 2000)],
    figures=("length_ratio",),
    errata=(
        Erratum(
            printed=r"(Informal, as a direct corollary of Corollary E.9, says footnote 5.) If the training loss is at "
            r"most $\epsilon$, the loss at $T_2$ is $O(T_2^2 \epsilon / T_1^2)$.",
            right="The loss at $T_2$ has this bound if the training time is at least that of Theorem E.6, as in "
            "Corollary E.9.",
            why="That training time makes $1 - q s_+$ itself small. A small training loss does not: it is smaller "
            r"than the square of $1 - q s_+$ by the factor $q / (T_1 - q)$, because $\alpha$ converges to a value "
            "above 1, which compensates for the missing attention weight at $T_1$. At $T_2$ this compensation is "
            "wrong, and the ratio of the losses is of order $T_1 / q$.",
            rank=Rank.STATEMENT,
            at="Corollary 3.6",
            shown_by="the ratio grows with T_1",
        ),
    ),
    alone="The claim fails: the check rejects the printed statement itself.",
)
def corollary_3_6(cells: Sequence[CellResult]) -> Finding:
    """Check that the ratio divided by T_2^2 / T_1^2 is unbounded: it grows in proportion to T_1."""
    doubled = TIMES.index(2.0)
    ratios = {cell.parameters["T1"]: cell.result["ratio"][doubled] for cell in cells}
    power = float(np.polyfit(np.log(list(ratios)), np.log(list(ratios.values())), 1)[0])
    off = max(
        abs(ratio / limit - 1)
        for cell in cells
        for ratio, limit in zip(cell.result["ratio"], cell.result["limit"], strict=True)
    )
    numbers: dict[str, float | str] = {
        "loss at 2000 / loss at 1000": ratios[1000],
        "the corollary's bound on it, up to a constant": 4,
        "at T_2 = 2 T_1 the ratio grows as the power of T_1": power,
        "largest |ratio / limit - 1|": off,
    }
    if off > 0.2:
        return Finding(Verdict.UNDECIDED, numbers, "The ratio does not follow its limit law.")
    return holds_if(power <= 0.5, numbers, shows={"the ratio grows with T_1": power > 0.5})
