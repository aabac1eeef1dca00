"""The chain of inequalities in the proofs of Theorems D.4 and E.6 of Wang, Wei, Hsu and Lee, step by step on a grid.

The state is (s, alpha), s the weight of a position in the subset; w = 1 - q s, D = T q s^2 - 2 q s + 1, alpha* =
(T - q) s / D, r = w / (q s (T s - 1)), and alpha = (1 + gamma r) alpha*. A step of descent is

    alpha' = alpha + eta s (1 - alpha / alpha*),    C' = C + eta v alpha s w (1 - q alpha (T s - 1) / (T - q)),

with v = d / (T - 1) in Theorem D.4, and (1 +- c) d / d_e in Theorem E.6, c = delta / (1 - 2 delta), where all encodings
are taken to have the same weight s. The induction hypothesis is gamma <= 1 - kappa / 8, with kappa = 1 / d and
d_e / (T d). Everything is as it is right: the misprints of the proofs are in the claims.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from separatrix.claims.ledger import Found, Neighbour

Floats = npt.NDArray[np.float64]
_GRID, _GAMMAS = 400, 41


@dataclass(frozen=True)
class Chain:
    """The constants of a proof: the sizes, the rate, the speeds of C between which it lies, and kappa."""

    T: int
    q: int
    d: int
    epsilon: float
    eta: float
    slow: float
    fast: float
    kappa: float

    @property
    def x(self) -> float:
        """sqrt(q (T - q) epsilon / (d T)): training ends when s reaches (1 - x) / q."""
        return math.sqrt(self.q * (self.T - self.q) * self.epsilon / (self.d * self.T))

    def best(self, s: Floats) -> Floats:
        """alpha*."""
        return (self.T - self.q) * s / (self.T * self.q * s**2 - 2 * self.q * s + 1)

    def upper(self, s: Floats, part: float) -> Floats:
        """(1 + (1 - part kappa) r) alpha*."""
        r = (1 - self.q * s) / (self.q * s * (self.T * s - 1))
        return (1 + (1 - part * self.kappa) * r) * self.best(s)

    def gain(self, s: Floats, alpha: Floats, speed: float) -> Floats:
        """The step of C."""
        factor = 1 - self.q * alpha * (self.T * s - 1) / (self.T - self.q)
        return self.eta * speed * alpha * s * (1 - self.q * s) * factor

    def moved(self, s: Floats, gain: Floats) -> Floats:
        """s after a step of C."""
        odds = (1 / s - self.q) * np.exp(-gain)
        return 1 / (self.q + odds)

    def loss(self, s: Floats, alpha: Floats) -> Floats:
        """The loss, from alpha and s."""
        T, q = self.T, self.q
        square = (T - q) * q * (alpha * s - 1 / q) ** 2 + alpha**2 * (1 - q * s) ** 2
        return self.d / (2 * (T - q)) * square


def steps(chain: Chain) -> dict[str, float]:
    """Each step of the proof as a quotient that must not exceed 1, the largest over a grid of states.

    The names tell the steps: the induction from t to t + 1 for alpha above alpha* and below it, the comparison (S2) of
    the two upper ends, the least and the largest step of C, its two stages, and the loss at the end.
    """
    T, q, eta, x = chain.T, chain.q, chain.eta, chain.x
    turn = 1 / math.sqrt(T * q)
    s = np.geomspace(1 - q * turn, 1e-6, _GRID)
    late = ((1 - s) / q)[:, None]  # from 1 / sqrt(T q) to nearly 1 / q
    share = np.linspace(0, 1, _GAMMAS)[None]
    top = chain.upper(late, 1 / 8)
    above = chain.best(late) + share * (top - chain.best(late))
    found: dict[str, float] = {}
    for name, speed in (("slow", chain.slow), ("fast", chain.fast)):
        gain = chain.gain(late, above, speed)
        after = chain.moved(late, gain)
        stepped = above + eta * late * (1 - above / chain.best(late))
        found[f"induction above alpha*, {name}"] = float((stepped / chain.upper(after, 1 / 8)).max())
        lower = above <= chain.upper(late, 1 / 4)
        found[f"(S2), {name}"] = float((chain.upper(late, 1 / 4) / chain.upper(after, 1 / 8))[lower].max())
    early = np.linspace(1 / T, turn, _GRID + 1)[1:-1, None]
    least = 1 - 0.1 * x
    below = least + share * (chain.best(early) - least)
    for name, speed in (("slow", chain.slow), ("fast", chain.fast)):
        after = np.minimum(chain.moved(early, chain.gain(early, below, speed)), turn)
        stepped = below + eta * early * (1 - below / chain.best(early))
        found[f"induction below alpha*, {name}"] = float((stepped / chain.best(after)).max())
        found[f"lower end, {name}"] = float((least / stepped).max())
    states = [(early, below), (late, above), (late, least + share * (chain.best(late) - least))]
    w = [1 - q * weight for weight, _ in states]
    gains = [chain.gain(weight, alpha, chain.slow) for weight, alpha in states]
    floor = eta * chain.slow * chain.kappa / 8
    found["least step of C"] = max(float((floor * u**2 / (T - q) / g).max()) for u, g in zip(w, gains, strict=True))
    first = [(g, weight < 1 / (2 * q)) for g, (weight, _) in zip(gains, states, strict=True)]
    at_first = [float(g[np.broadcast_to(where, g.shape)].min()) for g, where in first if where.any()]
    found["first stage"] = floor / (4 * (T - q)) / min(at_first)
    second = [(g, weight <= (1 - x) / q) for g, (weight, _) in zip(gains, states, strict=True)]
    at_second = [float(g[np.broadcast_to(where, g.shape)].min()) for g, where in second if where.any()]
    found["second stage"] = floor * x**2 / (T - q) / min(at_second)
    ends = np.linspace(1 - x, 1, _GRID)[:-1] / q
    found["loss at the end"] = max(
        float(chain.loss(ends, alpha).max()) / chain.epsilon
        for alpha in (np.full_like(ends, least), chain.upper(ends, 1 / 8))
    )
    return found


NEIGHBOURS = (
    Neighbour("the steps of $C$ are at least twice as large", {"step": "least step of C", "factor": 2.0}),
    Neighbour(r"the loss at the end is at most $\epsilon / 2$", {"step": "loss at the end", "factor": 2.0}),
    Neighbour("the induction hypothesis holds with a bound smaller by 1%", {"step": "induction above", "factor": 1.01}),
)
"""Wrong statements about single steps: a quotient that is multiplied by a factor, and must then exceed 1."""


def chain_holds(found: Sequence[Found], step: str = "", factor: float = 1.0) -> tuple[bool, dict[str, float | str]]:
    """Whether no step of the chain is missed in any cell, and the largest quotient of each.

    Where `step` begins the name of a step, its quotient is multiplied by `factor`.
    """
    names = found[0].result["chain"]
    worst = {name: max(one.result["chain"][name] for one in found) for name in names}
    held = all(
        quotient * (factor if step and name.startswith(step) else 1.0) <= 1 + 1e-9 for name, quotient in worst.items()
    )
    return held, {f"{name}: largest quotient, at most 1": quotient for name, quotient in worst.items()}
