r"""Softmax regression (Definition 3.8): one entry of Ax is 4 log n, and softmax gives it nearly all the weight."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.separation.datasets import RegressionInput, regression_input
from separatrix.separation.decimals import Number, exact
from separatrix.separation.hypotheses import Hypothesis, broken, enforce
from separatrix.separation.radicals import sign
from separatrix.separation.regression_bounds import silent, single_vector
from separatrix.separation.results import Bracket, Probabilities, Simulation
from separatrix.separation.simulation import LARGEST_N, random_signs, tally

__all__ = ["RegressionDraws", "SoftmaxRegression", "regression_draws"]

_BATCH_BYTES = 2**25


@dataclass(frozen=True)
class SoftmaxRegression:
    """A setting of softmax regression: the data sets of Definition 3.8 and the networks on them.

    Args:
        n: the number of tokens, which is also the length of a sign vector.
        m: the number of sign vectors.
        tau: the threshold; the paper does not print its value.
        strict: whether a tau outside Definition 3.5 is an error.

    Example:
        >>> SoftmaxRegression(n=1000, m=6).success_probability().low.success > 0.984
        True
        >>> SoftmaxRegression(n=1000, m=6, tau=0)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: tau: expected tau in (0, inf), got tau = 0. This breaks Definition 3.5 \
(tau in (0, inf)).
    """

    n: int
    m: int
    tau: Number = 0.25
    strict: bool = True

    def __post_init__(self) -> None:
        for name, low in (("n", 2), ("m", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), low=low))
        values = self.values()
        if self.strict:
            enforce(self.kind, values)

    @property
    def kind(self) -> str:
        """The key of this setting in `hypotheses.HYPOTHESES`."""
        return "softmax regression"

    @property
    def threshold(self) -> float:
        """The threshold tau as a float."""
        return float(exact(self.tau, "tau"))

    def values(self) -> Mapping[str, Fraction]:
        """The exact value of each parameter, by its name."""
        return {name: exact(getattr(self, name), name) for name in ("n", "m", "tau")}

    def broken_hypotheses(self) -> tuple[Hypothesis, ...]:
        """The hypotheses of the definition and of the theorems that this setting does not satisfy."""
        return broken(self.kind, self.values())

    def sample(self, seed: int | torch.Generator) -> tuple[RegressionInput, RegressionInput]:
        """Draw one element of D0 and one of D1.

        >>> d0, d1 = SoftmaxRegression(10, 1).sample(seed=0)
        >>> d0.A.shape, d0.special, d1.special
        (torch.Size([10, 1]), None, 4)
        """
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        special = int(torch.randint(0, self.n, (), generator=generator))
        return regression_input(self.n, generator), regression_input(self.n, generator, special=special)

    def simulate(self, trials: int, seed: int, *, shared_signs: bool = True) -> Simulation:
        """Estimate the probabilities by the paper's Monte Carlo, each with its 95 % Wilson interval.

        Args:
            trials: the number of independent trials, each with its own data and signs.
            seed: the seed of the generator that draws the data and the signs.
            shared_signs: whether the four networks of a trial use the same y; False draws one for each.

        Example:
            >>> SoftmaxRegression(1000, 6).simulate(trials=200, seed=0).lin_silent_on_d0.hits
            200
        """
        trials = whole("trials", trials, low=1)
        if self.n > LARGEST_N:
            raise ArgumentError("n", expected=f"at most {LARGEST_N} for a simulation in float64", got=self.n)
        generator = torch.Generator().manual_seed(whole("seed", seed, low=0))
        fired = []
        for draws in regression_draws(self.n, self.m, trials, generator, shared_signs=shared_signs):
            f = torch.stack([g(Ax) for Ax in (draws.on_d1, draws.on_d0) for g in (_softmax, _linear)], 1)
            y = draws.y.double()
            projections = f @ y[:, 0] if shared_signs else (f[:, :, None] @ y).squeeze(2)
            fired.append((projections > self.threshold).any(-1))
        return tally(torch.cat(fired))

    def success_probability(self, *, shared_signs: bool = True) -> Bracket:
        """Certified bounds on the probabilities, over random data and signs.

        For 0 < tau < 1 both bounds on `exp_fires_on_d1` are 1 - 2^-m, except where (1 - tau) / (1 + tau) is below about
        n^-1.6. There the other weights together may exceed the special one, and 1 - 2^-m is only an upper bound.

        Args:
            shared_signs: whether the four networks use the same y.

        Example:
            >>> found = SoftmaxRegression(100, 4).success_probability()
            >>> found.exp_fires_on_d1, round(found.low.success, 2), round(found.high.success, 2)
            (0.9375, 0.87, 0.9)
        """
        m, tau = self.m, exact(self.tau, "tau")
        one = single_vector(self.n, float(tau))
        worst = one.worst
        lin1, exp0, lin0 = (silent(getattr(one, name), worst[name], m) for name in ("lin1", "exp0", "lin0"))
        fires = self._fires(tau)
        if not shared_signs:
            on_d0 = max(0.0, exp0[0] + lin0[0] - 1), min(exp0[1], lin0[1])
            success = fires[0] * lin1[0] * on_d0[0], fires[1] * lin1[1] * on_d0[1]
        else:
            no_bad = silent(one.bad, worst["bad"], m)
            success = 0.0, min(no_bad[1], fires[1])
            if fires[0] > 0:
                # No vector is good or bad if the special sign is -1 in all of them and, given that, none is bad.
                neither = silent(one.bad_if_minus, worst["bad_if_minus"], m)
                success = max(0.0, no_bad[0] - 0.5**m * neither[1]), min(success[1], no_bad[1] - 0.5**m * neither[0])
        low, high = zip(fires, lin1, exp0, lin0, success, strict=True)
        return Bracket(Probabilities(*low), Probabilities(*high))

    def _fires(self, tau: Fraction) -> tuple[float, float]:
        """Bounds on P[F_exp > 0 on D1]; in units of n the special weight is n^3 and the others at most n^0.4."""
        if tau >= 1:
            return 0.0, 0.0
        for_it, against = tau.denominator - tau.numerator, tau.denominator + tau.numerator
        special, others = Fraction(3), Fraction(2, 5)
        if sign(self.n, [(for_it * (self.n - 1), others, 0), (-against, special, 0)]) > 0:
            return 0.0, 1.0
        dominates = sign(self.n, [(for_it, special, 0), (-against * (self.n - 1), others, 0)]) > 0
        return (1 - 0.5**self.m if dominates else 0.0), 1 - 0.5**self.m


@dataclass(frozen=True)
class RegressionDraws:
    """A batch of T trials.

    Attributes:
        on_d1: Ax of the element of D1, of shape (T, n).
        on_d0: Ax of the element of D0, of shape (T, n).
        special: the special index of the element of D1, of shape (T,).
        y: the signs, of shape (T, 1, n, m) if the four networks share them, else (T, 4, n, m).
    """

    on_d1: Tensor
    on_d0: Tensor
    special: Tensor
    y: Tensor


def regression_draws(
    n: int, m: int, trials: int, generator: torch.Generator, *, shared_signs: bool
) -> Iterator[RegressionDraws]:
    """Draw the trials in batches of bounded memory, with (Ax)_i uniform in [log n, 1.4 log n] as in `datasets`."""
    networks = 1 if shared_signs else 4
    size = max(1, _BATCH_BYTES // (8 * n * (networks * m + 6)))
    for start in range(0, trials, size):
        T = min(size, trials - start)
        Ax = math.log(n) * (1 + 0.4 * torch.rand(2, T, n, generator=generator, dtype=torch.float64))
        special = torch.randint(0, n, (T,), generator=generator)
        Ax[0, torch.arange(T), special] = 4 * math.log(n)
        yield RegressionDraws(Ax[0], Ax[1], special, random_signs((T, networks, n, m), generator))


def _softmax(Ax: Tensor) -> Tensor:
    return torch.softmax(Ax, -1)


def _linear(Ax: Tensor) -> Tensor:
    return Ax / Ax.sum(-1, keepdim=True)
