"""Corollaries 3.6 and E.9 of Wang, Wei, Hsu and Lee: from sequences of length T_1 to longer ones.

With orthogonal encodings of enough dimensions all is exact: C and alpha come from training at T_1, by equation (6), and
the loss at T_2 from Lemma D.2. With x = (T_2 - q) / (T_1 - q) and rho_i = q / (T_i - q), late in training

    L_{T_2} / L_{T_1} -> ((x - 1)^2 + rho_2 x^2) / rho_1,

of order (T_1 / q)(x - 1)^2: at T_1 alpha is above 1 by just what the attention loses there, and at T_2 it loses more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim
from separatrix.claims.selection.slips import judged
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_loss
from separatrix.selection.flow import population_flow
from separatrix.selection.laws import plateau_time


@experiment(version=1, name="selection.length_ratio")
def length_ratio(T1: int, times: list[float], q: int, d: int, seed: int) -> dict[str, object]:
    """Losses at T_1 and at multiples of it along training at T_1, up to 10^4 plateaus; the last ratio, its limit."""
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
    paper="selection",
    where="Corollary 3.6",
    says="Once the training loss at T_1 is at most epsilon, the loss at T_2 is at most O(T_2^2 epsilon / T_1^2).",
    cells=lambda: [length_ratio.cell(seed=0, T1=T1, times=list(TIMES), q=3, d=5) for T1 in (50, 200, 1000, 2000)],
    figures=("length_ratio",),
    errata=(
        Erratum(
            printed="Corollary 3.6: with a training loss of at most epsilon, that at T_2 is O(T_2^2 epsilon / T_1^2).",
            right="When the training time is at least that of Theorem E.6, as in Corollary E.9.",
            why="That time makes 1 - q s_+ itself small. The training loss is smaller than its square by the factor "
            "q / (T_1 - q), because alpha settles above 1 to offset what the attention loses at T_1; at T_2 the offset "
            "is wrong, and the ratio of the losses is of order T_1 / q.",
        ),
    ),
)
def corollary_36(found: Sequence[Found]) -> Finding:
    """No constant bounds the ratio over T_2^2 / T_1^2: it grows in proportion to T_1."""
    doubled = TIMES.index(2.0)
    ratios = {one.parameters["T1"]: one.result["ratio"][doubled] for one in found}
    power = float(np.polyfit(np.log(list(ratios)), np.log(list(ratios.values())), 1)[0])
    off = max(
        abs(ratio / limit - 1)
        for one in found
        for ratio, limit in zip(one.result["ratio"], one.result["limit"], strict=True)
    )
    numbers: dict[str, float | str] = {
        "loss at 2000 / loss at 1000": ratios[1000],
        "what the corollary has for it, up to a constant": 4,
        "at T_2 = 2 T_1 the ratio grows as the power of T_1": power,
        "largest |ratio / limit - 1|": off,
    }
    if off > 0.2:
        return Finding(Verdict.UNDECIDED, numbers, "The law for the ratio is missed.")
    return Finding(Verdict.FAILS_AS_PRINTED if power > 0.5 else Verdict.HOLDS, numbers)


@experiment(version=1, name="selection.corollary_e9")
def after_the_time(T1: int, q1: int, d: int, epsilons: list[float], seed: int) -> dict[str, float]:
    """The losses after the time T_1^2 d / epsilon of eta t, at most, in parts of what the corollaries promise."""
    epsilon = np.array(sorted(epsilons, reverse=True))
    run = population_flow(T1, q1, d, T1**2 * d / epsilon)
    longer = [
        population_loss(run.alpha, run.C, times * T1, q2, d) / (times**2 * epsilon)
        for times in (2, 10)
        for q2 in (q1, 2 * q1)
    ]
    return {"trained": float((run.loss / epsilon).max()), "longer": float(np.max(longer))}


@claim(
    paper="selection",
    where="Corollary E.9",
    says="After the training time of Theorem E.6 for epsilon, the loss at any T_2 and q_2 up to the largest that the "
    "encodings allow is O(T_2^2 epsilon / T_1^2).",
    cells=lambda: [after_the_time.cell(seed=0, T1=T1, q1=3, d=5, epsilons=[1e-2, 1e-3, 1e-4]) for T1 in (50, 1000)],
)
def corollary_e9(found: Sequence[Found]) -> Finding:
    """With the constant 1 and no logarithm in the time, for orthogonal encodings, T_2 up to 10 T_1, q_2 up to 2 q_1."""
    longer = max(one.result["longer"] for one in found)
    numbers: dict[str, float | str] = {
        "largest loss at (T_2, q_2) / (T_2^2 epsilon / T_1^2)": longer,
        "largest training loss / epsilon": max(one.result["trained"] for one in found),
    }
    return Finding(Verdict.HOLDS if longer <= 1 else Verdict.FAILS_AS_PRINTED, numbers)


LAST_LINE = {
    "epsilon of the first term": Erratum(
        printed="Proof of Corollary E.9: in the last line, T_2 (T_2 - q_2) q_1^3 / (2 q_2^2 T_1 (T_1 - q_1)).",
        right="Times epsilon (and over q_2^3; with q_2^2 it is still an upper bound).",
        why="It is (d/2) T_2 / ((T_2 - q_2) q_2) times the square of the bound on 1 - q_2 s', which has sqrt(epsilon).",
    ),
}


@experiment(version=1, name="selection.corollary_e9_proof")
def last_line(T1: int, T2: int, q1: int, q2: int, d: int, epsilon: float, seed: int) -> dict[str, list[float]]:
    """The first term of the proof's last line, from the bound on 1 - q_2 s', against the printed and the right one."""
    spill = (T2 - q2) * q1 / (T1 - q1) * math.sqrt((T1 - q1) * q1 * epsilon / (T1 * d)) / q2
    first = d / 2 * T2 / ((T2 - q2) * q2) * spill**2
    printed = T2 * (T2 - q2) * q1**3 / (2 * q2**2 * T1 * (T1 - q1))
    exact = printed * epsilon / q2
    return {
        "epsilon of the first term": [
            abs(printed / first - 1) - 1,
            max(abs(exact / first - 1), first / (printed * epsilon) - 1),
        ]
    }


@claim(
    paper="selection",
    where="Corollary E.9",
    part="proof",
    says="The loss at T_2 is at most a sum of four terms, each of order T_2^2 epsilon / T_1^2.",
    cells=lambda: [last_line.cell(seed=0, T1=200, T2=400, q1=3, q2=q2, d=5, epsilon=1e-4) for q2 in (3, 6)],
    errata=tuple(LAST_LINE.values()),
)
def corollary_e9_proof(found: Sequence[Found]) -> Finding:
    return judged(found, LAST_LINE)
