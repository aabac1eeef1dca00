r"""Self-attention (Definition D.1): softmax attention shows that one token is large in one coordinate; linear attention
does not.

Q K^T is the identity (Section E of the paper), the all-ones matrix (Section D), or any other d x d matrix. Importing
torch takes a second, so only the methods that use tensors import it; exact probabilities do not need it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.separation.decimals import Number, exact
from separatrix.separation.enumeration import enumerated_mixture
from separatrix.separation.exact import log10_failures, probabilities
from separatrix.separation.hypotheses import Hypothesis, broken, enforce
from separatrix.separation.mixture import Fires, Mixture, attention_mixture, firing_tables
from separatrix.separation.results import Probabilities, Simulation
from separatrix.separation.rows import self_attention_networks

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from separatrix.separation.datasets import AttentionInput
    from separatrix.separation.simulation import Rows

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class SelfAttention:
    """A setting of self-attention: the data sets of Definition D.1 and the networks on them.

    Args:
        n: the number of tokens.
        d: the width of a token.
        m: the number of sign vectors.
        a0: the first coordinate of the special token in D0, in units of sqrt(log n).
        a1: the first coordinate of the special token in D1, in the same unit.
        b: the factor of the stacked identities, in the same unit.
        c: the factor of the ones in the last column, in the same unit.
        weights: Q K^T as "identity", "ones", or a d x d matrix (nested sequences of numbers, or a tensor).
        tau: the threshold, absolute; None stands for the theorems' (c + 0.1) sqrt(log n), as an exact number.
        strict: whether parameters outside Definition D.1 are an error. With `strict=False`, n need not be a multiple
            of d - 2 either (the stack of identities is cut off after n rows).

    Example:
        >>> setting = SelfAttention(n=200, d=12, m=15, a0=0.01, a1=1.2, b=0.2, c=0.8, weights="identity")
        >>> round(setting.success_probability().success, 4)
        0.4691
        >>> SelfAttention(n=200, d=13, m=15, a0=0.01, a1=1.2, b=0.2, c=0.8)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: n, d: expected n = (d - 2) t, got n = 200, d = 13. \
This breaks Definition D.1 (n = (d - 2) t).
    """

    n: int
    d: int
    m: int
    a0: Number
    a1: Number
    b: Number
    c: Number
    weights: str | Matrix | Sequence[Sequence[Number]] | Tensor = "identity"
    tau: Number | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        for name, low in (("n", 2), ("d", 3), ("m", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), low=low))
        if isinstance(self.weights, str):
            if self.weights not in ("identity", "ones"):
                raise ArgumentError("weights", expected='"identity", "ones" or a d x d matrix', got=repr(self.weights))
        else:
            object.__setattr__(self, "weights", _matrix(self.weights, self.d))
        values = self.values()
        if self.strict:
            enforce(self.kind, values)

    @property
    def kind(self) -> str:
        """The key of this setting in `hypotheses.HYPOTHESES`."""
        return f"self-attention, {self.weights if isinstance(self.weights, str) else 'other'}"

    @property
    def threshold(self) -> float:
        """The threshold tau as a float."""
        if self.tau is None:
            return float(exact(self.c, "c") + Fraction(1, 10)) * math.sqrt(math.log(self.n))
        return float(exact(self.tau, "tau"))

    def values(self) -> Mapping[str, Fraction]:
        """The exact value of each parameter, by its name; tau is absent if it has the value of the theorems."""
        return self._values

    @cached_property
    def _values(self) -> Mapping[str, Fraction]:
        numbers = {name: exact(getattr(self, name), name) for name in ("n", "d", "m", "a0", "a1", "b", "c")}
        return numbers if self.tau is None else {**numbers, "tau": exact(self.tau, "tau")}

    def broken_hypotheses(self) -> tuple[Hypothesis, ...]:
        """The hypotheses of the definition and of the theorems that this setting does not satisfy."""
        return broken(self.kind, self.values())

    def weight_matrix(self) -> Tensor:
        """Q K^T as a (d, d) tensor of float64."""
        import torch

        if isinstance(self.weights, str):
            d = self.d
            return torch.eye(d, dtype=torch.float64) if self.weights == "identity" else torch.ones(d, d).double()
        return torch.tensor([[float(x) for x in row] for row in cast(Matrix, self.weights)], dtype=torch.float64)

    def element(self, which: Literal[0, 1], special: int) -> AttentionInput:
        """The element of D0 or D1 whose special index is j3 = `special`, counted from 0."""
        from separatrix.separation.datasets import self_attention_input

        a, b, c = self._floats(which)
        return self_attention_input(self.n, self.d, a, b, c, special)

    def sample(self, seed: int | torch.Generator) -> tuple[AttentionInput, AttentionInput]:
        """Draw one element of D0 and one of D1, with independent special indices.

        >>> d0, d1 = SelfAttention(8, 4, 1, a0=0.05, a1=1, b=0.5, c=0.5).sample(seed=1)
        >>> d0.A1.shape, d0.special, d1.special
        (torch.Size([8, 4]), 5, 3)
        """
        from separatrix.separation.datasets import special_indices

        j0, j1 = special_indices(self.n, 2, seed)
        return self.element(0, j0), self.element(1, j1)

    def simulate(self, trials: int, seed: int, *, shared_signs: bool = True) -> Simulation:
        """Estimate the probabilities by the paper's Monte Carlo, each with its 95 % Wilson interval.

        Args:
            trials: the number of independent trials.
            seed: the seed of the generator that draws the data and the signs.
            shared_signs: whether the four networks of a trial use the same y; False draws one for each.

        Example:
            >>> setting = SelfAttention(n=200, d=12, m=15, a0=0.01, a1=1.2, b=0.2, c=0.8)
            >>> estimate = setting.simulate(trials=1000, seed=0).success
            >>> estimate.low < setting.success_probability().success < estimate.high
            True
        """
        from separatrix.separation.simulation import simulate_attention

        return simulate_attention(
            self.n, self.d, self.m, self.d - 2, self.threshold, self._rows, self.weight_matrix(),
            trials=trials, seed=seed, shared_signs=shared_signs,
        )  # fmt: skip

    def success_probability(self, *, shared_signs: bool = True) -> Probabilities:
        """The exact probabilities; nothing is sampled, and n may be 10^100.

        If the weights are neither "identity" nor "ones", or if a0, a1, b or c is negative, the 2^d sign vectors are
        enumerated, which needs d <= 20.

        Args:
            shared_signs: whether the four networks use the same y.

        Example:
            >>> setting = SelfAttention(10**100, 102, 15, a0=0.01, a1=1.2, b=0.2, c=0.8, weights="ones")
            >>> setting.success_probability().success
            0.9866346203769518
        """
        return probabilities(self._mixture(), self.m, shared_signs)

    def log10_failure(self, *, shared_signs: bool = True) -> Probabilities:
        """The values log10(1 - probability), for probabilities too near one for a float; -inf if it is exactly one."""
        return log10_failures(self._mixture(), self.m, shared_signs)

    def _mixture(self) -> Mixture:
        v = self.values()
        tau, logs = (v["tau"], 1) if "tau" in v else (v["c"] + Fraction(1, 10), 0)
        return _mixture(self.n, self.d, v["a0"], v["a1"], v["b"], v["c"], tau, logs, cast(Any, self.weights))

    def _rows(self, which: int, special: Tensor) -> Rows:
        from separatrix.separation.simulation import self_attention_rows

        a, b, c = self._floats(which)
        return self_attention_rows(self.n, self.d, a, b, c, special)

    def _floats(self, which: int) -> tuple[float, float, float]:
        v = self.values()
        return float(v[f"a{which}"]), float(v["b"]), float(v["c"])


@lru_cache(maxsize=256)
def _mixture(
    n: int,
    d: int,
    a0: Fraction,
    a1: Fraction,
    b: Fraction,
    c: Fraction,
    tau: Fraction,
    logs: int,
    weights: Literal["identity", "ones"] | Matrix,
) -> Mixture:
    if not isinstance(weights, str):
        return enumerated_mixture(n, d, a0, a1, b, c, tau, logs, weights)
    if b + c == 0 or min(a0, a1, b, c) < 0:
        named = tuple(tuple(Fraction(weights == "ones" or i == j) for i in range(d)) for j in range(d))
        return enumerated_mixture(n, d, a0, a1, b, c, tau, logs, named)
    d1, d0 = (_tables(n, d, a, b, c, tau, logs, weights) for a in (a1, a0))
    return attention_mixture(n, d - 2, d1, d0)


@lru_cache(maxsize=64)
def _tables(
    n: int,
    d: int,
    a: Fraction,
    b: Fraction,
    c: Fraction,
    tau: Fraction,
    logs: int,
    weights: Literal["identity", "ones"],
) -> dict[int, Fires]:
    return firing_tables(n, d - 2, True, self_attention_networks(n, a, b, c, tau, logs, weights))


def _matrix(weights: object, d: int) -> Matrix:
    rows = weights.tolist() if hasattr(weights, "tolist") else weights  # a tensor or an array
    expected = f'"identity", "ones" or a {d} x {d} matrix'
    try:
        matrix = tuple(tuple(exact(x, "weights") for x in row) for row in cast(Any, rows))
    except TypeError as error:
        raise ArgumentError("weights", expected=expected, got=repr(weights)) from error
    if len(matrix) != d or any(len(row) != d for row in matrix):
        raise ArgumentError("weights", expected=expected, got=f"{len(matrix)} rows of {sorted({*map(len, matrix)})}")
    return matrix
