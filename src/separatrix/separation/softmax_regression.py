r"""Softmax regression (Definition 3.8): one entry of Ax is 4 log n, and softmax gives it nearly all the weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from separatrix.checks import whole
from separatrix.separation.decimals import Number, exact
from separatrix.separation.hypotheses import Hypothesis, broken, enforce
from separatrix.separation.radicals import sign
from separatrix.separation.regression_bounds import silent, single_vector
from separatrix.separation.results import Bracket, Probabilities, Simulation

if TYPE_CHECKING:
    import torch

    from separatrix.separation.datasets import RegressionInput


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
        from separatrix.separation.datasets import generator_of, regression_input, special_indices

        generator = generator_of(seed)
        (special,) = special_indices(self.n, 1, generator)
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
        from separatrix.separation.regression_simulation import simulate_regression

        return simulate_regression(self.n, self.m, self.threshold, trials=trials, seed=seed, shared_signs=shared_signs)

    def success_probability(self, *, shared_signs: bool = True) -> Bracket:
        """Certified bounds on the probabilities, over random data and signs.

        For 0 < tau < 1 both bounds on `exp_fires_on_d1` are 1 - 2^-m, except where (1 - tau) / (1 + tau) is below about
        n^-1.6. Then the other weights together may exceed the special weight, and 1 - 2^-m is only an upper bound.

        Args:
            shared_signs: whether the four networks use the same y.

        Example:
            >>> bracket = SoftmaxRegression(100, 4).success_probability()
            >>> bracket.exp_fires_on_d1, round(bracket.low.success, 2), round(bracket.high.success, 2)
            (0.9375, 0.87, 0.9)
        """
        m, tau = self.m, exact(self.tau, "tau")
        vector = single_vector(self.n, float(tau))
        worst = vector.worst
        lin1, exp0, lin0 = (silent(getattr(vector, name), worst[name], m) for name in ("lin1", "exp0", "lin0"))
        fires = self._fires(tau)
        if not shared_signs:
            on_d0 = max(0.0, exp0[0] + lin0[0] - 1), min(exp0[1], lin0[1])
            success = fires[0] * lin1[0] * on_d0[0], fires[1] * lin1[1] * on_d0[1]
        else:
            no_bad = silent(vector.bad, worst["bad"], m)
            success = 0.0, min(no_bad[1], fires[1])
            if fires[0] > 0:
                # No vector is good or bad if the special sign is -1 in all vectors and, given this, no vector is bad.
                neither = silent(vector.bad_if_minus, worst["bad_if_minus"], m)
                success = max(0.0, no_bad[0] - 0.5**m * neither[1]), min(success[1], no_bad[1] - 0.5**m * neither[0])
        low, high = zip(fires, lin1, exp0, lin0, success, strict=True)
        return Bracket(Probabilities(*low), Probabilities(*high))

    def _fires(self, tau: Fraction) -> tuple[float, float]:
        """Bounds on P[F_exp > 0 on D1]; in units of n the special weight is n^3 and the others at most n^0.4."""
        if tau >= 1:
            return 0.0, 0.0
        for_it, against = tau.denominator - tau.numerator, tau.denominator + tau.numerator
        special, other_entries = Fraction(3), Fraction(2, 5)
        if sign(self.n, [(for_it * (self.n - 1), other_entries, 0), (-against, special, 0)]) > 0:
            return 0.0, 1.0
        dominates = sign(self.n, [(for_it, special, 0), (-against * (self.n - 1), other_entries, 0)]) > 0
        return (1 - 0.5**self.m if dominates else 0.0), 1 - 0.5**self.m
