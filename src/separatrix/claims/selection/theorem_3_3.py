"""Theorem 3.3 of Wang, Wei, Hsu and Lee: how long descent takes with stochastic encodings, from sampled means.

A dot-product threshold t makes the (q, delta)-property certain with delta = q sqrt(2) t: a block of q by 2q products
has row sums up to 2 q t and column sums up to q t. So encodings of threshold 0.035 have delta < 1/10 for q = 2, which
the theorem requires. The paper's own runs have delta above 1/2, and are shown for comparison.

The statement is an O-tilde with d_e = Theta(q log T / delta^2): it promises no constant, and d_e is one of its
logarithms. So the check judges the powers: as a variable grows, the time divided by d_e must not grow faster than the
bound. The times grow as d_e (T / (2 d) + 1 / (4 epsilon)) / eta, so that the power of T is nearly constant from T =
1024 on, and the power of 1/epsilon for epsilon up to 1e-3: `stochastic_times` computes times in these ranges. That law
is proved by the claim beyond/theorem-3.3/time-law. So T^1 d^0 is also a valid upper bound, which a check of upper
bounds must accept; as an exact law it is rejected there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, Verdict, claim, holds_if
from separatrix.claims.misprint_pairs import worst
from separatrix.claims.selection.stochastic_times import drawn_weights, times_in_the_flow
from separatrix.claims.selection.unseparated import SHOWN, losses_stay_above, signs_cells, unseparated
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.overlap_table import OverlapTable, overlap_table
from separatrix.selection.stochastic_dynamics import stochastic_dynamics

_Q, _D, _THRESHOLD, _WIDTH = 2, 2, 0.035, 4096


def _table(T: int, seed: int) -> OverlapTable:
    return overlap_table(T, _Q, _WIDTH, threshold=_THRESHOLD, encodings=4, subsets=32, generator=seed, largest_C=16.0)


@experiment(version=2, name="selection.stochastic_time")
def counted(T: int, lr: float, epsilons: list[float], steps: int, seed: int) -> dict[str, object]:
    """The first steps with the loss of the mean (equation (4)) at most each epsilon, by the recursion."""
    run = stochastic_dynamics(_table(T, seed), _D, lr, steps, objective="loss of the mean")
    below = [np.flatnonzero(run.loss <= epsilon) for epsilon in epsilons]
    return {
        "times": [int(steps_below[0]) if len(steps_below) else None for steps_below in below],
        "increases": int((np.diff(run.loss) > 0).sum()),
        "delta": _Q * math.sqrt(2) * _THRESHOLD,
    }


@experiment(version=1, name="selection.stochastic_flow_time")
def in_the_flow(T: int, d: int, width: int, epsilons: list[float], seed: int) -> dict[str, object]:
    """The times eta t at which the loss of the mean falls to each epsilon, by descent at a small rate."""
    weights = drawn_weights(T, width, threshold=_THRESHOLD, subsets=16, seed=seed)
    return {"flow": times_in_the_flow(weights, T, d, width, epsilons)}


RATE = (
    Erratum(
        rank=Rank.STATEMENT,
        at="Theorem 3.3, the rate",
        shown_by="largest rate",
        printed=r"Any learning rate $\eta \le d_e^2 / (40 d^2 T)$ is allowed.",
        right=r"The rate must also be below $2 q$. The proof needs more: that $\alpha$ does not overshoot "
        r"$\alpha^\ast$, for which $\eta$ must be at most $q$.",
        why=r"Late in training a step multiplies the distance of $\alpha$ from its limit by $1 - \eta / q$, which is "
        r"below $-1$ for $\eta > 2 q$. The printed bound is above $2 q$ unless $T \ge d_e^2 / (80 d^2 q)$, and "
        r"$\delta < 1/10$ needs a $d_e$ in the thousands; for $T$ beyond that, as in the limit of large $T$ at $d_e = "
        r"\Theta(\log T)$, the printed bound is the smaller one and no further condition is needed.",
    ),
    unseparated(
        "Theorem 3.3",
        r"If $q = \Theta(1)$ and $\delta < 1/10$, the loss is at most $\epsilon$ after that time, for any $\epsilon$.",
    ),
)


@experiment(version=2, name="selection.stochastic_rate")
def largest_rate(T: int, seed: int) -> dict[str, object]:
    """Near the solution: the factor by which 8 steps at the rates 2.1 q and 1.9 q change |alpha - 1|, minus 1."""
    table, start = _table(T, seed), (1.1, 14.0)
    grown = []
    for lr in (2.1 * _Q, 1.9 * _Q):
        run = stochastic_dynamics(table, _D, lr, 8, objective="loss of the mean", start=start)
        grown.append(abs(float(run.alpha[-1]) - 1) / (start[0] - 1) - 1)
    return {"rate": _WIDTH**2 / (40 * _D**2 * T), "largest rate": grown}


def _cells() -> Iterator[Cell]:
    for T, lr, steps in ((32, _Q / 2, 170_000), (32, _Q / 4, 340_000), (64, _Q / 2, 210_000), (128, _Q / 2, 280_000)):
        yield counted.cell(seed=0, T=T, lr=lr, epsilons=[0.01], steps=steps)
    for T in (32, 64, 128):
        yield in_the_flow.cell(seed=0, T=T, d=_D, width=_WIDTH, epsilons=[0.01, 1e-3, 1e-4])
    for d in (2, 8):
        yield in_the_flow.cell(seed=0, T=32, d=d, width=2 * _WIDTH, epsilons=[0.01, 1e-3, 1e-4])
    for T in (256, 1024, 4096):
        # d_e = Theta(q log T / delta^2) as in the theorem, with a constant large enough that most draws are valid.
        for d in (2, 4):
            yield in_the_flow.cell(seed=0, T=T, d=d, width=math.ceil(2048 * math.log(T)), epsilons=[0.01])
    yield largest_rate.cell(seed=0, T=64)
    yield from signs_cells()


Time = tuple[Mapping[str, float], float]
"""A setting of T, d, width, 1/epsilon and 1/eta, and the steps that it takes."""


def times(cells: Sequence[CellResult]) -> list[Time]:
    """All times in the results of the cells; times of the flow are eta t, the number of steps at the rate 1."""
    rows: list[Time] = []
    for cell in cells:
        sizes = {"d": _D, "width": _WIDTH, "lr": 1.0, **cell.parameters}
        for epsilon, time in zip(
            sizes.get("epsilons", []), cell.result.get("times") or cell.result.get("flow") or [], strict=True
        ):
            setting = {name: float(sizes[name]) for name in ("T", "d", "width")}
            rows.append(({**setting, "1/epsilon": 1 / epsilon, "1/eta": 1 / sizes["lr"]}, float(time)))
    return rows


def powers(rows: Sequence[Time]) -> dict[str, list[tuple[Time, Time, float]]]:
    """For each variable, the pairs of times that differ in it alone, with its power in time / d_e between the two.

    When T grows, the width may grow with it, as in the theorem; for the width itself, the power is that in the time.
    """
    pairs_by_name: dict[str, list[tuple[Time, Time, float]]] = {name: [] for name in rows[0][0]}
    for name, pairs in pairs_by_name.items():
        freed = {name, "width"} if name == "T" else {name}
        for low in rows:
            larger = [
                high
                for high in rows
                if high[0][name] > low[0][name] and all(high[0][x] == low[0][x] for x in low[0].keys() - freed)
            ]
            if larger:
                high = min(larger, key=lambda row: (row[0][name], abs(row[0]["width"] - low[0]["width"])))
                over = 1.0 if name == "width" else high[0]["width"] / low[0]["width"]
                power = math.log(high[1] / low[1] / over) / math.log(high[0][name] / low[0][name])
                pairs.append((low, high, power))
    return pairs_by_name


TOLERANCE = 0.03
"""The amount by which a converged power may exceed that of the bound; sampling of encodings changes powers by less."""


@claim(
    where="Theorem 3.3",
    says=r"With stochastic encodings that have the $(q, \delta)$-property for $\delta < 1/10$, and zero "
    r"initialization, gradient descent with a learning rate up to $d_e^2 / (40 d^2 T)$ brings the loss to $\epsilon$ "
    r"within $T^{(2 + 2 c) / (1 - c)} / \eta + T^2 d / (\eta \epsilon)$ steps, $c = \delta \sqrt{q} / (1 - \delta)$, "
    "up to logarithmic factors, $d_e$ among them.",
    cells=_cells,
    errata=RATE,
    neighbours=(
        Neighbour(r"within $T^{0.85} d / (\eta \epsilon)$ steps", {"in_T": 0.85}),
        Neighbour(r"within $T^2 d / (\eta \epsilon^{0.9})$ steps", {"in_epsilon": 0.9}),
        Neighbour(r"within $T^2 d / (\eta^{0.9} \epsilon)$ steps", {"in_eta": 0.9}),
        Neighbour(r"within $T^2 / (d^{0.1} \eta \epsilon)$ steps", {"in_d": -0.1}),
        Neighbour("up to a factor that does not depend on $d_e$", {"in_width": 0}),
        Neighbour("at the rate $2.1 q$, which is below the printed one", {"rate": 0}),
        Neighbour(r"for every $q$, as printed", {"every_q": True}),
    ),
    history=(
        "Until 2026-11-17 the bounds were computed but not compared with anything. Since then the counted times must "
        "be below the bounds and grow no faster. The verdict did not change.",
        r"On 2026-11-17 the rule was: no time above $T^2 d / (\eta \epsilon)$ with the constant 1, at the width 4096, "
        r"and fitted powers of $T$ and $1/\epsilon$ of at most 2 and 1 at $T = 32$, 64 and 128. That rule depended on "
        "the width that we chose (at 8192 a quotient is 1.54), and the powers had not converged there. Now the rule is "
        r"about the local powers of $T$ up to 4096, of $1/\epsilon$ up to $10^4$, and of $1/\eta$, $d$ and $d_e$. The "
        "verdict did not change.",
        "Until 2026-11-18 the wrong neighbours were $T^{0.8}$, $d^{-0.5}$ and the rate $3 q$ against $q / 2$. Nearer "
        "neighbours replaced them after results had been seen: $T^{0.85}$ ($T^{0.9}$ was tried first, and is too near "
        "to the measured power 0.935), $d^{-0.1}$, and $2.1 q$ against $1.9 q$. The verdict did not change.",
    ),
)
def theorem_3_3(
    cells: Sequence[CellResult],
    in_T: float = 2,
    in_d: float = 1,
    in_epsilon: float = 1,
    in_eta: float = 1,
    in_width: float = 1,
    rate: int = 1,
    every_q: bool = False,
) -> Finding:
    """Check the largest rate, and that no time grows faster than the bound in any of its variables, including d_e.

    The times grow as T + 1/epsilon, so that the bound's powers 2 of T and 1 of d are larger than necessary: the power
    of T approaches 1, and d^0 is the smallest bound in d.
    """
    runs = [cell for cell in cells if "times" in cell.result]
    numbers: dict[str, float | str] = {"delta, at most": max(cell.result["delta"] for cell in runs)}
    if any(None in cell.result["times"] for cell in runs):
        return Finding(Verdict.UNDECIDED, numbers, "A run was too short to reach its epsilon.")
    allowed = {"T": in_T, "d": in_d, "width": in_width, "1/epsilon": in_epsilon, "1/eta": in_eta}
    largest = {name: max(power for *_, power in pairs) for name, pairs in powers(times(cells)).items()}
    apart = unlike(cells)
    printed, right = worst(cells, "largest rate")
    numbers |= {
        "steps by T, at a width of 2048 log T, epsilon = 0.01, d = 2": ", ".join(
            f"{cell.parameters['T']}: {cell.result['flow'][0]:,.0f}"
            for cell in cells
            if "flow" in cell.result and cell.parameters["T"] > 128 and cell.parameters["d"] == _D
        ),
        **{f"largest local power of {name} in the steps": power for name, power in largest.items()},
        "largest |steps counted / steps in the flow - 1|": apart,
        "steps at which the loss increases": sum(cell.result["increases"] for cell in runs),
        "the printed largest rate at T = 64, where 2 q is 4": next(
            cell.result["rate"] for cell in cells if "rate" in cell.result
        ),
        "8 steps at the rate 2.1 q multiply |alpha - 1| by": 1 + printed,
        "at the rate 1.9 q, by": 1 + right,
    }
    if apart > 0.02:
        return Finding(Verdict.UNDECIDED, numbers, "Counted times and those of the flow differ by more than 2%.")
    held = all(power <= allowed[name] + TOLERANCE for name, power in largest.items())
    beyond, beyond_numbers = losses_stay_above(cells)
    numbers |= beyond_numbers
    note = (
        "The printed powers are larger than needed: the times grow as T / (2 d) + 1 / (4 epsilon), so that the same "
        "check accepts a power of T of 1 and a power of d of 0, and rejects smaller powers."
    )
    shows = {"largest rate": printed > 0, SHOWN: beyond}
    return holds_if(held and (printed, right)[rate] <= 0 and not (every_q and beyond), numbers, note, shows=shows)


def unlike(cells: Sequence[CellResult]) -> float:
    """The difference between counted times, with whole encodings, and those of the flow with drawn products."""
    flow = {cell.parameters["T"]: cell.result["flow"][0] for cell in cells if cell.parameters.get("width") == _WIDTH}
    counts = [
        (cell.parameters["T"], cell.result["times"][0] * cell.parameters["lr"])
        for cell in cells
        if "times" in cell.result
    ]
    return float(max(abs(steps / flow[T] - 1) for T, steps in counts))
