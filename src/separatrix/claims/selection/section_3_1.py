"""Section 3.1 of Wang, Wei, Hsu and Lee: the end of training, where the loss falls as 1/t."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.lab.registry import experiment
from separatrix.selection.flow import population_flow
from separatrix.selection.laws import plateau_time, tail_constant

RATE = (
    Erratum(
        rank=Rank.STATEMENT,
        at="Section 3.1",
        shown_by="rate of s_+",
        printed="$s_+$ converges to $1/q$ at a rate of $O(1/t)$.",
        right=r"$s_+$ converges at the rate $1 / \sqrt{t}$; the loss, which is quadratic in $1 - q s_+$, converges "
        "at the rate $1/t$.",
        why=r"For large $t$, $1 - q s_+$ is close to $\sqrt{(T - 1)(T - q) / (2 d \eta t)}$, and the loss is close "
        r"to $(T - 1) / (4 \eta t)$.",
    ),
)


@experiment(version=1, name="selection.tail")
def tail(T: int, q: int, d: int, seed: int) -> dict[str, object]:
    """Return the loss and 1 - q s_+ of equation (6) at log-spaced times tau = eta t, up to 10^5 plateaus."""
    tau = np.geomspace(1.0, 1e5 * plateau_time(T, q, d), 121)
    run = population_flow(T, q, d, tau)
    odds = (T - q) / q * np.exp(-run.C)
    w = odds / (1 + odds)
    late = tau > tau[-1] / 100
    slopes = {
        name: float(np.polyfit(np.log(tau[late]), np.log(y[late]), 1)[0]) for name, y in (("loss", run.loss), ("w", w))
    }
    return {
        "tau": tau,
        "loss": run.loss,
        "w": w,
        "loss_power": slopes["loss"],
        "w_power": slopes["w"],
        "constant": float(run.loss[-1] * tau[-1]) / tail_constant(T, 1.0),
        "increases": int((np.diff(run.loss) > 0).sum()),
        "rate of s_+": [slopes["w"] + 0.9, abs(slopes["w"] + 0.5) - 0.02],
    }


@claim(
    where="Section 3.1",
    part="tail",
    says="Late in training $s_+$ converges to $1/q$ at a rate of $O(1/t)$, and the loss converges with it.",
    cells=lambda: [tail.cell(seed=0, T=T, q=q, d=d) for T, q, d in ((20, 2, 1), (60, 3, 5), (200, 3, 5))],
    figures=("population_tail",),
    errata=RATE,
    neighbours=(*as_printed(RATE), Neighbour(r"the loss tends to $(T - 1) / (2 \eta t)$", {"factor": 2.0})),
)
def section_3_1_tail(cells: Sequence[CellResult], misprint: str = "", factor: float = 1.0) -> Finding:
    """Check that the loss falls as (T - 1) / (4 eta t), and 1 - q s_+ as t^(-1/2)."""
    power = max(abs(cell.result["loss_power"] + 1) for cell in cells)
    constant = max(abs(cell.result["constant"] - factor) for cell in cells)
    increases = sum(cell.result["increases"] for cell in cells)
    numbers: dict[str, float | str] = {
        "powers of t in 1 - q s_+": ", ".join(f"{cell.result['w_power']:.3f}" for cell in cells),
        "powers of t in the loss": ", ".join(f"{cell.result['loss_power']:.3f}" for cell in cells),
        "largest |eta t loss / ((T - 1) / 4) - 1|": constant,
        "times at which the loss increases": increases,
    }
    return compared(cells, RATE, numbers, held=max(power, constant) <= 0.02 and not increases, misprint=misprint)
