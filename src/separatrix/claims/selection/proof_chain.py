"""The chain of inequalities in the proofs of Theorems D.4 and E.6 of Wang, Wei, Hsu and Lee, step by step on a grid.

The state is (s, alpha), s the weight of a position in the subset; w = 1 - q s, D = T q s^2 - 2 q s + 1, alpha* =
(T - q) s / D, r = w / (q s (T s - 1)), and alpha = (1 + gamma r) alpha*. A step of descent is

    alpha' = alpha + eta s (1 - alpha / alpha*),    C' = C + eta v alpha s w (1 - q alpha (T s - 1) / (T - q)),

with v = d / (T - 1) in Theorem D.4, and (1 +- c) d / d_e in Theorem E.6, c = sqrt(q) delta / (1 - delta) the largest
overlap (Lemma A.3, corrected), where all encodings are taken to have the same weight s. The induction hypothesis is
gamma <= 1 - kappa / 8, with kappa = 1 / d in Theorem D.4 and d_e / (T d) in Theorem E.6. All formulas are the corrected
ones; the claims compare them with the printed ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from separatrix.claims.ledger import CellResult, Neighbour

Floats = npt.NDArray[np.float64]
_GRID, _GAMMAS = 400, 41


@dataclass(frozen=True)
class Chain:
    """The constants of a proof: the sizes, the rate, bounds on the speed of C, and kappa."""

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

    def time(self) -> float:
        """The time eta t of gradient flow from zero to the loss epsilon, with the least speed of C."""
        from scipy.integrate import solve_ivp  # type: ignore[import-untyped]

        T, q = self.T, self.q

        def slope(_: float, state: Floats) -> tuple[float, float]:
            alpha = float(state[0])
            s = 1 / (q + (T - q) * math.exp(-float(state[1])))
            best = (T - q) * s / (T * q * s * s - 2 * q * s + 1)
            factor = 1 - q * alpha * (T * s - 1) / (T - q)
            return s * (1 - alpha / best), self.slow * alpha * s * (1 - q * s) * factor

        def reached(_: float, state: Floats) -> float:
            alpha, C = np.array(state[0]), np.array(state[1])
            return math.log(float(self.loss(1 / (q + (T - q) * np.exp(-C)), alpha)) / self.epsilon)

        reached.terminal = True  # type: ignore[attr-defined]
        solved = solve_ivp(slope, (0.0, 1e15), (0.0, 0.0), method="Radau", events=reached, rtol=1e-7, atol=1e-9)
        return float(solved.t_events[0][0])

    def total(self) -> float:
        """The number of steps that the proof counts, times eta: Phase I, and both stages at their least steps of C."""
        T, q, x = self.T, self.q, self.x
        least = self.slow * self.kappa / (8 * (T - q))
        first, second = math.log((T - q) / q), math.log((T - q) / q * (1 / x - 1))
        return T * math.log(10 / x) + 4 * first / least + (second - first) / (least * x**2)


def steps(chain: Chain) -> dict[str, float]:
    """Each step of the proof as a quotient that must not exceed 1: the maximum over a grid of states.

    Each quotient divides the change of a quantity by its largest allowed change, so it is not near 1 by construction.
    Above alpha*, in the upper part of the interval, the decrease of the upper end is compared with that of alpha; in
    the lower part, with the distance of the two parts, which is (S2). Below alpha*, the increase of alpha is compared
    with its distance to the next upper end, which is alpha* until s has passed 1 / sqrt(T q); above alpha*, the
    decrease of alpha is compared with its distance to the lower end. The other quotients belong to the bounds on the
    least steps of C, on the two stages, on the loss at the end, and on the number of all steps to epsilon. The first
    quotient is proportional to kappa, and (S2) to eta, so their slack shows how much larger kappa and eta could be.
    """
    T, q, eta, x = chain.T, chain.q, chain.eta, chain.x
    turn, least = 1 / math.sqrt(T * q), 1 - 0.1 * x
    late = ((1 - np.geomspace(1 - q * turn, 1e-4, _GRID)) / q)[:, None]  # from 1 / sqrt(T q) to nearly 1 / q
    share = np.linspace(0, 1, _GAMMAS)[None]
    best, middle, top = chain.best(late), chain.upper(late, 1 / 4), chain.upper(late, 1 / 8)
    above, high, low = best + share * (top - best), middle + share * (top - middle), best + share * (middle - best)
    quotients: dict[str, float] = {}
    for name, speed in (("slow", chain.slow), ("fast", chain.fast)):
        end = chain.upper(chain.moved(late, chain.gain(late, high, speed)), 1 / 8)
        quotients[f"induction above alpha*, {name}"] = float(((high - end) / (eta * late * (high / best - 1))).max())
        end = chain.upper(chain.moved(late, chain.gain(late, low, speed)), 1 / 8)
        quotients[f"(S2), {name}"] = float(((top - end) / (top - middle)).max())
    early = np.linspace(1 / T, turn, _GRID + 1)[1:-1, None]
    below = least + share * (chain.best(early) - least)
    for name, speed in (("slow", chain.slow), ("fast", chain.fast)):
        of_starts = []
        for weight, alpha in ((early, below), (late, least + share * (best - least))):
            under = alpha[:, :-1]  # at alpha = alpha* the step does not change alpha
            after = chain.moved(weight, chain.gain(weight, under, speed))
            end = np.where(after < turn, chain.best(after), chain.upper(after, 1 / 8))
            rise = eta * weight * (1 - under / chain.best(weight))
            of_starts.append(float((rise / (end - under)).max()))
        quotients[f"induction below alpha*, {name}"] = max(of_starts)
    quotients["lower end"] = float((eta * late * (above / best - 1) / (above - least)).max())
    states = [(early, below), (late, above), (late, least + share * (best - least))]
    w = [1 - q * weight for weight, _ in states]
    gains = [chain.gain(weight, alpha, chain.slow) for weight, alpha in states]
    floor = eta * chain.slow * chain.kappa / 8
    quotients["least step of C"] = max(float((floor * u**2 / (T - q) / g).max()) for u, g in zip(w, gains, strict=True))
    first = [(g, weight < 1 / (2 * q)) for g, (weight, _) in zip(gains, states, strict=True)]
    at_first = [float(g[np.broadcast_to(where, g.shape)].min()) for g, where in first if where.any()]
    quotients["first stage"] = floor / (4 * (T - q)) / min(at_first)
    second = [(g, weight <= (1 - x) / q) for g, (weight, _) in zip(gains, states, strict=True)]
    at_second = [float(g[np.broadcast_to(where, g.shape)].min()) for g, where in second if where.any()]
    quotients["second stage"] = floor * x**2 / (T - q) / min(at_second)
    ends = np.linspace(1 - x, 1, _GRID)[:-1] / q
    quotients["loss at the end"] = max(
        float(chain.loss(ends, alpha).max()) / chain.epsilon
        for alpha in (np.full_like(ends, least), chain.upper(ends, 1 / 8))
    )
    quotients["total of steps"] = chain.time() / chain.total()
    return quotients


def crossing(chain: Chain, speed: float) -> tuple[float, float]:
    """Run from zero until s exceeds 1 / sqrt(T q); return the number of steps in which alpha* falls, and the largest
    relative excess of alpha over the upper end of its interval after a step.
    """
    turn, alpha, C = 1 / math.sqrt(chain.T * chain.q), 0.0, 0.0
    falls, above = 0, -math.inf
    s = 1 / chain.T
    while s < turn:
        gain = float(chain.gain(np.array(s), np.array(alpha), speed))
        best = float(chain.best(np.array(s)))
        alpha += chain.eta * s * (1 - alpha / best)
        C += gain
        s = 1 / (chain.q + (chain.T - chain.q) * math.exp(-C))
        after = float(chain.best(np.array(s)))
        end = after if s < turn else float(chain.upper(np.array(s), 1 / 8))
        falls += after < best
        above = max(above, alpha / end - 1)
    return float(falls), above


def below_the_interval(chain: Chain) -> tuple[float, float]:
    """For alpha below alpha* and s from 1 / sqrt(T q) on: the violations of two forms of the induction.

    The first is (S2): the upper end after a step is at least the middle of the interval before the step. The second is
    that the upper end after a step is at least alpha after the step. Both are relative to alpha*.
    """
    late = ((1 - np.geomspace(1 - chain.q / math.sqrt(chain.T * chain.q), 1e-4, _GRID)) / chain.q)[:, None]
    best, least = chain.best(late), 1 - 0.1 * chain.x
    alpha = least + np.linspace(0, 1, _GAMMAS)[None] * (best - least)
    end = chain.upper(chain.moved(late, chain.gain(late, alpha, chain.fast)), 1 / 8)
    after = alpha + chain.eta * late * (1 - alpha / best)
    return float(((chain.upper(late, 1 / 4) - end) / best).max()), float(((after - end) / best).max())


def sharper(factors: Mapping[str, float]) -> tuple[Neighbour, ...]:
    """Wrong statements about single steps, one for each step: its quotient, multiplied by a factor, must then exceed 1.

    >>> sharper({"lower end": 3.0})[0].says
    'lower end: the bound divided by 3'
    """
    return tuple(
        Neighbour(f"{step}: the bound divided by {factor:g}", {"step": step, "factor": factor})
        for step, factor in factors.items()
    )


def chain_holds(
    cells: Sequence[CellResult], step: str = "", factor: float = 1.0
) -> tuple[bool, dict[str, float | str]]:
    """Whether every step of the chain holds in all cells, and the largest quotient of each step.

    The quotients of steps whose name begins with `step` are multiplied by `factor`.
    """
    chains = [cell.result["chain"] for cell in cells if "chain" in cell.result]
    worst = {name: max(chain[name] for chain in chains) for name in chains[0]}
    held = all(
        quotient * (factor if step and name.startswith(step) else 1.0) <= 1 + 1e-9 for name, quotient in worst.items()
    )
    return held, {f"{name}: largest quotient, at most 1": quotient for name, quotient in worst.items()}
