"""Corollary E.8 of Wang, Wei, Hsu and Lee: where C and alpha are after the training time of Theorem E.6.

With x^2 = q (T - q) epsilon / (d T): once the mean weight is at least (1 - x) / q, the upper end of the induction (IH2)
is at most 1 + 8 x / 5. Runs are those of orthogonal encodings, for which all encodings have the same weight; their
speed is that of the width d_e.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


def upper_end(s: float, T: int, q: int, kappa: float) -> float:
    """The upper end of (IH2) at the mean weight s, kappa = d_e / (T d).

    >>> upper_end(0.5, 9, 2, 0.1)
    1.0
    """
    r = (1 - q * s) / (q * s * (T * s - 1))
    return (1 + (1 - kappa / 8) * r) * (T - q) * s / (T * q * s * s - 2 * q * s + 1)


@experiment(version=1, name="selection.corollary_e8_ends")
def ends(q: int, seed: int) -> dict[str, float]:
    """The largest (upper end - 1) / x over mean weights from (1 - x) / q on, T from 4 q + 1 on, and epsilon.

    kappa, which may be any positive number up to 1, is at its worst when it is smallest.
    """
    above = 0.0
    for T, share in itertools.product((4 * q + 1, 6 * q, 40 * q, 1000 * q), (0.9999, 0.25, 1e-4)):
        x = 0.1 * math.sqrt(share)
        weights = (1 - x * np.linspace(1.0, 1e-6, 400)) / q
        above = max(above, *((upper_end(float(s), T, q, 0.0) - 1) / x for s in weights))
    return {"above": above}


@experiment(version=1, name="selection.corollary_e8_run")
def run(T: int, q: int, d: int, width: int, share: float, seed: int) -> dict[str, float]:
    """A run with one weight for all encodings, until a half more steps than C needs to reach the corollary's bound."""
    epsilon = share * d * T / (100 * (T - q) * q)
    x = math.sqrt(q * (T - q) * epsilon / (d * T))
    eta = min(width**2 / (40 * d**2 * T), q / 2)
    needed = math.log((T - q) / q / x)
    alpha = C = 0.0
    reached, low, high, fell, t = None, math.inf, -math.inf, 0, 0
    while reached is None or t < 1.5 * reached:
        s = 1 / (q + (T - q) * math.exp(-C))
        w = 1 - q * s
        moved = eta * d * alpha / width * w * s * (1 - q * alpha * (T * s - 1) / (T - q))
        alpha += eta * s * (1 - alpha * (T * q * s * s - 2 * q * s + 1) / ((T - q) * s))
        C += moved
        t += 1
        fell += moved < 0
        if reached is None and needed <= C:
            reached = t
        if reached is not None:
            low, high = min(low, (alpha - 1) / x), max(high, (alpha - 1) / x)
    return {"time": reached * eta / (T**2 * d / epsilon + T**2), "low": low, "high": high, "fell": fell, "eta": eta}


def _end_cells() -> Iterator[Cell]:
    for q in (2, 3, 10, 100):
        yield ends.cell(seed=0, q=q)


def _run_cells() -> Iterator[Cell]:
    for T, q, d, width in ((9, 2, 1, 9), (13, 3, 2, 40), (24, 2, 1, 24)):
        for share in (0.99, 0.3):
            yield run.cell(seed=0, T=T, q=q, d=d, width=width, share=share)


@claim(
    paper="selection",
    where="Corollary E.8",
    says=r"After the time of Theorem E.6, $C$ is at least $\frac{1 - 2 \delta}{1 - 3 \delta} \log \frac{T "
    r"- q}{q x}$, and $\alpha$ lies between $1 - x / 10$ and $1 + 8 x / 5$, with $x^2 = q (T - q) \epsilon / (d T)$.",
    cells=lambda: (*_end_cells(), *_run_cells()),
    neighbours=(
        Neighbour(r"$\alpha$ is at most $1 + 3 x / 2$", {"above": 1.5}),
        Neighbour(r"$\alpha$ is at least $1 + x$", {"below": -1.0}),
        Neighbour(r"after a time of $T^2 / \eta$, whatever $\epsilon$ is", {"in_epsilon": 0}),
    ),
)
def corollary_e_8(found: Sequence[Found], above: float = 1.6, below: float = 0.1, in_epsilon: int = 1) -> Finding:
    """The upper end of the induction over its whole range; runs at delta = 0, the time in units of its bound.

    For the time, the bound is T^2 d / (eta epsilon) + T^2 / eta, with the constant 1 and a logarithm of T d / epsilon.
    """
    tops = [one for one in found if "above" in one.result]
    runs = [one for one in found if "time" in one.result]
    worst = max(one.result["above"] for one in tops)
    low, high = min(one.result["low"] for one in runs), max(one.result["high"] for one in runs)
    times = []
    for one in runs:
        T, q, d, share = (one.parameters[name] for name in ("T", "q", "d", "share"))
        epsilon = share * d * T / (100 * (T - q) * q)
        bound = (T**2 * d / epsilon + T**2) if in_epsilon else T**2
        times.append(one.result["time"] * (T**2 * d / epsilon + T**2) / bound / math.log(T * d / epsilon))
    numbers: dict[str, float | str] = {
        "upper end of (IH2): largest (alpha - 1) / x": worst,
        "runs: least and largest (alpha - 1) / x afterwards": f"{low:.3f} and {high:.3f}",
        "runs: largest time / its bound": max(times),
        "steps at which C falls": sum(one.result["fell"] for one in runs),
    }
    held = worst <= above and high <= above and low >= -below and max(times) <= 1
    return holds_if(held and not numbers["steps at which C falls"], numbers)
