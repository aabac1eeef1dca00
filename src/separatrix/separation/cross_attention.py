"""Cross-attention (Definition F.1): one query has a large score with one key, which only softmax attention makes
visible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.separation.decimals import Number, exact
from separatrix.separation.exact import log10_failures, probabilities
from separatrix.separation.hypotheses import Hypothesis, broken, enforce
from separatrix.separation.mixture import Fires, Mixture, attention_mixture, firing_tables
from separatrix.separation.results import Probabilities, Simulation
from separatrix.separation.rows import cross_attention_networks

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from separatrix.separation.datasets import AttentionInput
    from separatrix.separation.simulation import Rows


@dataclass(frozen=True)
class CrossAttention:
    """A setting of cross-attention: the data sets of Definition F.1 and the networks on them; Q K^T is the identity.

    Args:
        n: the number of tokens.
        d: the width of a token.
        m: the number of sign vectors.
        a0: the first coordinate of the special query in D0, in units of log n.
        a1: the first coordinate of the special query in D1, in the same unit.
        tau: the threshold; the theorems have 0.9.
        strict: whether parameters outside Definition F.1 are an error. With `strict=False`, n need not be a multiple
            of d - 1 either (the stack of identities is cut off after n rows).

    Example:
        >>> round(CrossAttention(n=200, d=11, m=9, a0=0.01, a1=3).success_probability().success, 4)
        0.9166
        >>> CrossAttention(n=200, d=12, m=9, a0=0.01, a1=3)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: n, d: expected n = (d - 1) t, got n = 200, d = 12. \
This breaks Definition F.1 (n = (d - 1) t).
    """

    n: int
    d: int
    m: int
    a0: Number
    a1: Number
    tau: Number = "0.9"
    strict: bool = True

    def __post_init__(self) -> None:
        for name, low in (("n", 2), ("d", 2), ("m", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), low=low))
        values = self.values()
        for name in ("a0", "a1"):
            if values[name] < 0:
                raise ArgumentError(name, expected="at least 0", got=getattr(self, name))
        if self.strict:
            enforce(self.kind, values)

    @property
    def kind(self) -> str:
        """The key of this setting in `hypotheses.HYPOTHESES`."""
        return "cross-attention"

    @property
    def threshold(self) -> float:
        """The threshold tau as a float."""
        return float(exact(self.tau, "tau"))

    def values(self) -> Mapping[str, Fraction]:
        """The exact value of each parameter, by its name."""
        return self._values

    @cached_property
    def _values(self) -> Mapping[str, Fraction]:
        return {name: exact(getattr(self, name), name) for name in ("n", "d", "m", "a0", "a1", "tau")}

    def broken_hypotheses(self) -> tuple[Hypothesis, ...]:
        """The hypotheses of the definition and of the theorems that this setting does not satisfy."""
        return broken(self.kind, self.values())

    def weight_matrix(self) -> Tensor:
        """Q K^T as a (d, d) tensor of float64."""
        import torch

        return torch.eye(self.d, dtype=torch.float64)

    def element(self, which: Literal[0, 1], special: int, special_query: int) -> AttentionInput:
        """The element of D0 or D1 with j3 = `special` and j2 = `special_query`, counted from 0."""
        from separatrix.separation.datasets import cross_attention_input

        return cross_attention_input(self.n, self.d, self._a(which), special_query, special)

    def sample(self, seed: int | torch.Generator) -> tuple[AttentionInput, AttentionInput]:
        """Draw one element of D0 and one of D1, with independent special indices.

        >>> d0, d1 = CrossAttention(8, 3, 1, a0=0.05, a1=2).sample(seed=1)
        >>> d0.A2.shape, d0.special, d1.special
        (torch.Size([8, 3]), 5, 3)
        """
        from separatrix.separation.datasets import special_indices

        j0, j1, q0, q1 = special_indices(self.n, 4, seed)
        return self.element(0, j0, q0), self.element(1, j1, q1)

    def simulate(self, trials: int, seed: int, *, shared_signs: bool = True) -> Simulation:
        """Estimate the probabilities by the paper's Monte Carlo, each with its 95 % Wilson interval.

        Args:
            trials: the number of independent trials.
            seed: the seed of the generator that draws the data and the signs.
            shared_signs: whether the four networks of a trial use the same y; False draws one for each.
        """
        from separatrix.separation.simulation import simulate_attention

        return simulate_attention(
            self.n, self.d, self.m, self.d - 1, self.threshold, self._rows, self.weight_matrix(),
            trials=trials, seed=seed, shared_signs=shared_signs,
        )  # fmt: skip

    def success_probability(self, *, shared_signs: bool = True) -> Probabilities:
        """The exact probabilities; nothing is sampled, and n may be 10^100."""
        return probabilities(self._mixture(), self.m, shared_signs)

    def log10_failure(self, *, shared_signs: bool = True) -> Probabilities:
        """The values log10(1 - probability), for probabilities too near one for a float; -inf if it is exactly one."""
        return log10_failures(self._mixture(), self.m, shared_signs)

    def _mixture(self) -> Mixture:
        v = self.values()
        return _mixture(self.n, self.d, v["a0"], v["a1"], v["tau"])

    def _rows(self, which: int, special: Tensor) -> Rows:
        from separatrix.separation.simulation import cross_attention_rows

        return cross_attention_rows(self.n, self.d, self._a(which), special)

    def _a(self, which: int) -> float:
        return float(exact(self.a1 if which else self.a0, f"a{which}"))


@lru_cache(maxsize=256)
def _mixture(n: int, d: int, a0: Fraction, a1: Fraction, tau: Fraction) -> Mixture:
    d1, d0 = (_tables(n, d, a, tau) for a in (a1, a0))
    return attention_mixture(n, d - 1, d1, d0)


@lru_cache(maxsize=64)
def _tables(n: int, d: int, a: Fraction, tau: Fraction) -> dict[int, Fires]:
    return firing_tables(n, d - 1, False, cross_attention_networks(n, a, tau))
