"""The displays in the proof of Theorem E.6 of Wang, Wei, Hsu and Lee that are right as printed, or once corrected.

The claim `selection/theorem-e.6/displays` is about those that are misprinted. Here every other inequality of the proof
is evaluated: as the largest quotient of its smaller and its larger side over a grid, which must not exceed 1. s is the
mean weight of a position in y, w = 1 - q s, D = T q s^2 - 2 q s + 1, alpha* = (T - q) s / D, r = w / (q s (T s - 1)),
kappa = d_e / (T d), alpha = (1 + gamma r) alpha*, and x^2 = q (T - q) epsilon / (d T). The rate is the largest that the
theorem allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from separatrix.claims.ledger import CellResult, Finding, claim, holds_if
from separatrix.claims.selection.proof_chain import Chain, Floats, chain_holds, sharper
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_GRID, _GAMMAS, _LARGEST_X = 400, 41, 0.1


@experiment(version=1, name="selection.theorem_e6_right_displays")
def quotients(T: int, q: int, d: int, width: int, seed: int) -> dict[str, dict[str, float]]:
    """Each display as the largest quotient of its two sides, s from 1 / sqrt(T q) to nearly 1 / q."""
    kappa, eta = width / (T * d), width**2 / (40 * d**2 * T)
    chain = Chain(T, q, d, _LARGEST_X**2 * d * T / (q * (T - q)), eta, 7 / 8 * d / width, 9 / 8 * d / width, kappa)
    s = ((1 - np.geomspace(1 - q / math.sqrt(T * q), 1e-4, _GRID)) / q)[:, None]
    end = ((1 - np.linspace(_LARGEST_X, 1e-6, _GRID)) / q)[:, None]
    displays = {**_of_a_step(chain, s), **_of_the_rate(chain, s), **_at_the_end(chain, end)}
    return {"chain": {name: float(np.max(quotient)) for name, quotient in displays.items()}}


def _terms(chain: Chain, s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """w, D, alpha* and r."""
    T, q = chain.T, chain.q
    w = 1 - q * s
    return w, T * q * s**2 - 2 * q * s + 1, chain.best(s), w / (q * s * (T * s - 1))


def _of_a_step(chain: Chain, s: Floats) -> dict[str, Floats]:
    """What becomes of alpha*, r and the upper end when C grows by up to 1/5."""
    T, q = chain.T, chain.q
    w, D, best, r = _terms(chain, s)
    gain = np.linspace(0, 0.2, _GAMMAS + 1)[None, 1:]
    after = chain.moved(s, gain)
    rise = after - s
    of_best, of_r = T * q * s * rise / D, rise * (2 * T * s - 1) / (q * s**2 * (T * s - 1) ** 2)
    fall = chain.upper(s, 1 / 8) - chain.upper(after, 1 / 8)
    return {
        "decrement of alpha*": (best - chain.best(after)) / (of_best * best),
        "decrement of r": (r - _terms(chain, after)[3]) / of_r,
        "upper end before (***)": fall / ((2 * of_best + of_r) * best),
        "rise of s": 9 / 8 * rise / (45 / 32 * s * w * gain),
        "r at most 1": r,
        "D at least q s (T s - 1)": q * s * (T * s - 1) / D,
        "2 T s - 1 at most 3 (T s - 1)": (2 * T * s - 1) / (3 * (T * s - 1)),
    }


def _of_the_rate(chain: Chain, s: Floats) -> dict[str, Floats]:
    """The bounds on the step of C, and with them (S4) and (##), for alpha from alpha* to the upper end."""
    T, q, d, eta, kappa = chain.T, chain.q, chain.d, chain.eta, chain.kappa
    w, D, best, r = _terms(chain, s)
    width = kappa * T * d
    gamma = np.linspace(0, 1 - kappa / 8, _GAMMAS)[None]
    alpha = (1 + gamma * r) * best
    first = 9 * eta * d * (T - q) * s**2 * w**2 / (8 * width * D**2)
    second = 9 * eta * d / (32 * q * width)
    rise = 45 / 32 * s * w * first
    sum_of_both = 2 * T * q * s**2 * rise / D + rise * (2 * T * s - 1) / (q * s * (T * s - 1) ** 2)
    better = 9 * eta * (T - q) * s**2 * w**2 / (16 * T * D**2)
    small = 45 / 32 * s * w * better
    unit = eta * w / (q * (T * s - 1))
    low = 7 * eta * (T - q) * s**2 * w**2 / (64 * T * D**2)
    least = 1 - 0.1 * chain.x
    whole = np.minimum(least, best) + np.linspace(0, 1, _GAMMAS)[None] * (
        chain.upper(s, 1 / 8) - np.minimum(least, best)
    )
    return {
        "step of C below 1/5": second / 0.2 * np.ones(1),
        "(UP1)": chain.gain(s, alpha, chain.fast) / ((1 - gamma**2) * first),
        "(UP2)": first / second,
        "(S4)": sum_of_both / (width * w / (8 * d * T * q * (T * s - 1))),
        "1 - gamma^2 above the middle": (1 - (1 - kappa / 4) ** 2) / (kappa / 2) * np.ones(1),
        "(##), first term": 2 * T * q * s * small / D * best / (405 / 1024 * unit),
        "(##), second term": small * (2 * T * s - 1) / (q * s**2 * (T * s - 1) ** 2) * best / (1215 / 4096 * unit),
        "(##), both terms": (405 / 1024 + 1215 / 4096) / (1 - kappa / 4) * np.ones(1),
        "least step of C in Phase II": low / chain.gain(s, whole, chain.slow),
    }


def _at_the_end(chain: Chain, s: Floats) -> dict[str, Floats]:
    """The loss at both ends of the interval of alpha, once s is at least (1 - x) / q."""
    T, q, d, x = chain.T, chain.q, chain.d, chain.x
    w, _, best, r = _terms(chain, s)
    low = chain.loss(s, np.full_like(s, 1 - 0.1 * x))
    return {
        "loss at the lower end": low / (d * T * w**2 / (2 * q * (T - q)) + 0.21 * chain.epsilon),
        "alpha* at most 1 / (q s)": best * q * s,
        "alpha* at most 28/25": best / (28 / 25),
        "distance of the upper end": (1 - chain.kappa / 8) * r * best * s / (2 * x / T * best),
        "loss at the upper end": chain.loss(s, chain.upper(s, 1 / 8)) / chain.epsilon,
    }


FACTORS = {
    "decrement of alpha*": 1.02,
    "decrement of r": 1.08,
    "upper end before (***)": 1.62,
    "rise of s": 1.17,
    "r at most 1": 1.01,
    "D at least q s (T s - 1)": 1.01,
    "2 T s - 1 at most 3 (T s - 1)": 1.01,
    "step of C below 1/5": 65.0,
    "(UP1)": 1.01,
    "(UP2)": 1.02,
    "(S4)": 8.4,
    "1 - gamma^2 above the middle": 1.01,
    "(##), first term": 6.7,
    "(##), second term": 1.82,
    "(##), both terms": 1.13,
    "least step of C in Phase II": 1.01,
    "loss at the lower end": 1.2,
    "alpha* at most 1 / (q s)": 1.01,
    "alpha* at most 28/25": 1.01,
    "distance of the upper end": 1.32,
    "loss at the upper end": 4.6,
}
"""For each display a factor just beyond what it has to spare in these cells, chosen after they had been run."""


def _cells() -> Iterator[Cell]:
    # q just below T / 4, d_e just below d T, and sizes in between.
    for T, q, d, width in ((9, 2, 1, 8), (9, 2, 1, 4), (50, 3, 2, 90), (200, 3, 5, 170), (4001, 1000, 1, 300)):
        yield quotients.cell(seed=0, T=T, q=q, d=d, width=width)


@claim(
    where="Theorem E.6",
    part="right displays",
    says=r"In the proof, the bounds on a step of $C$ and on what it does to the interval of $\alpha$ lead to (S4) and "
    r"to (##), and the loss at both ends of the interval is at most $\epsilon$.",
    cells=_cells,
    neighbours=sharper(FACTORS),
)
def right_displays(cells: Sequence[CellResult], step: str = "", factor: float = 1.0) -> Finding:
    """No display is missed at any size."""
    held, numbers = chain_holds(cells, step, factor)
    return holds_if(held, numbers)
