"""Theorem 3.1 of Wang, Wei, Hsu and Lee: how long gradient descent takes with one-hot encodings, against the bound.

The recursion for (alpha, C) is exact (Lemma D.5), so that the time to a loss is counted, not estimated. The law beside
it, (1/eta) max(T^2/d, T/(4 epsilon)) up to constants, is derived in docs/derivations/selection-dynamics.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim
from separatrix.claims.selection.slips import judged
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_dynamics, population_loss, time_to_loss
from separatrix.selection.flow import population_flow
from separatrix.selection.laws import BOUND_EXPONENTS, plateau_time, tail_constant, time_law

SWEEPS: Mapping[str, tuple[float, ...]] = {
    "T": (16, 32, 64, 128),
    "d": (1, 2, 3, 4),
    "epsilon": (8e-3, 4e-3, 2e-3, 1e-3),
    "lr": (1 / 80, 1 / 160, 1 / 320),
}
BASES: Mapping[str, Mapping[str, float]] = {
    "T": {"q": 2, "d": 2, "lr": 1 / 80, "epsilon": 2e-3},
    "d": {"T": 32, "q": 2, "lr": 1 / 320, "epsilon": 2e-3},
    "epsilon": {"T": 64, "q": 2, "d": 2, "lr": 1 / 80},
    "lr": {"T": 32, "q": 2, "d": 2, "epsilon": 2e-3},
}
"""Every setting meets the theorem's hypotheses: 2 <= q < T/4, epsilon < d T / (100 (T - q) q), eta <= 1 / (20 d^2)."""


@experiment(version=1, name="selection.time_to_loss")
def counted(sweep: str, T: int, q: int, d: int, lr: float, epsilon: float, seed: int) -> dict[str, float | int]:
    """The first step with loss at most epsilon; the law's; the bound T^2 d / (eta epsilon), logarithms left out."""
    return {
        "steps": time_to_loss(T, q, d, lr, epsilon),
        "law": time_law(T, q, d, lr, epsilon),
        "bound": T**2 * d / (lr * epsilon),
        "allowed": int(2 <= q < T / 4 and epsilon < d * T / (100 * (T - q) * q) and lr <= 1 / (20 * d**2)),
    }


def _cells() -> Iterator[Cell]:
    for variable, values in SWEEPS.items():
        for value in values:
            sizes = {**BASES[variable], variable: value}
            whole = {name: int(sizes[name]) for name in ("T", "q", "d")}
            yield counted.cell(seed=0, sweep=variable, lr=sizes["lr"], epsilon=sizes["epsilon"], **whole)


def exponents(found: Sequence[Found]) -> dict[str, tuple[float, float, float]]:
    """For each variable the powers of it in the counted time, in the law and in the bound."""
    powers = {}
    for variable in SWEEPS:
        line = [one for one in found if one.parameters["sweep"] == variable]
        x = np.log([one.parameters[variable] for one in line])
        slopes = [float(np.polyfit(x, np.log([one.result[name] for one in line]), 1)[0]) for name in ("steps", "law")]
        powers[variable] = (slopes[0], slopes[1], BOUND_EXPONENTS[variable])
    return powers


@claim(
    paper="selection",
    where="Theorem 3.1",
    says="With one-hot encodings and a zero start, gradient descent on both matrices at a rate up to 1 / (20 d^2) "
    "brings the population loss to epsilon within T^2 d / (eta epsilon) steps, up to logarithms (Theorem D.4).",
    cells=_cells,
    figures=("time_to_loss", "time_exponents"),
)
def theorem_31(found: Sequence[Found]) -> Finding:
    """Every counted time is below the bound, even without its logarithms and constants."""
    over = max(one.result["steps"] / one.result["bound"] for one in found)
    powers = exponents(found)
    off = max(abs(one.result["steps"] / one.result["law"] - 1) for one in found)
    numbers: dict[str, float | str] = {
        "largest steps / (T^2 d / (eta epsilon))": over,
        "smallest": min(one.result["steps"] / one.result["bound"] for one in found),
        "largest |steps / law - 1|": off,
    }
    for variable, (measured, law, bound) in powers.items():
        numbers[f"power of {variable}"] = f"{measured:.2f} counted, {law:.2f} in the law, {bound:g} in the bound"
    if not all(one.result["allowed"] for one in found):
        return Finding(Verdict.UNDECIDED, numbers, "A setting is outside the theorem's hypotheses.")
    note = (
        "The bound is loose by a factor of order T d, and more dimensions leave the plateau sooner, not later: the law "
        "is the larger of T^2 / d and T / (4 epsilon), over eta."
    )
    return Finding(Verdict.HOLDS if over <= 1 else Verdict.FAILS_AS_PRINTED, numbers, note)


RATE = {
    "rate of s_+": Erratum(
        printed="Section 3.1: s_+ converges to 1/q at a rate of O(1/t).",
        right="At the rate 1 / sqrt(t); the loss, which is quadratic in 1 - q s_+, at 1/t.",
        why="1 - q s_+ tends to sqrt((T - 1)(T - q) / (2 d eta t)), and the loss to (T - 1) / (4 eta t).",
    ),
}


@experiment(version=1, name="selection.tail")
def tail(T: int, q: int, d: int, seed: int) -> dict[str, object]:
    """The loss and 1 - q s_+ of equation (6) at log-spaced times up to 10^5 plateaus, tau = eta t."""
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
    paper="selection",
    where="Section 3.1",
    part="tail",
    says="In the end s_+ converges to 1/q at a rate of O(1/t), and the loss with it.",
    cells=lambda: [tail.cell(seed=0, T=T, q=q, d=d) for T, q, d in ((20, 2, 1), (60, 3, 5), (200, 3, 5))],
    figures=("population_tail",),
    errata=tuple(RATE.values()),
)
def section_31_tail(found: Sequence[Found]) -> Finding:
    """The power of t in the loss is -1 with the constant (T - 1) / 4, and that of 1 - q s_+ is -1/2."""
    power = max(abs(one.result["loss_power"] + 1) for one in found)
    constant = max(abs(one.result["constant"] - 1) for one in found)
    numbers: dict[str, float | str] = {
        "powers of t in 1 - q s_+": ", ".join(f"{one.result['w_power']:.3f}" for one in found),
        "powers of t in the loss": ", ".join(f"{one.result['loss_power']:.3f}" for one in found),
        "largest |eta t loss / ((T - 1) / 4) - 1|": constant,
        "times at which the loss increases": sum(one.result["increases"] for one in found),
    }
    finding = judged(found, RATE)
    if power > 0.02 or constant > 0.02 or numbers["times at which the loss increases"]:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    return Finding(finding.verdict, numbers, finding.note)


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
    return Finding(Verdict.HOLDS if held else Verdict.FAILS_AS_PRINTED, numbers)
