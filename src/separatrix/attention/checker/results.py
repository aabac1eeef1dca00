"""The results of a call that is checked, for each query, and the choice of the queries to recompute."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from separatrix.attention.checker.problem import Floats, Problem, exact_floats
from separatrix.errors import ArgumentError


@dataclass(frozen=True)
class CallResults:
    """The results of a call: outputs (N, d_v), bounds (N,) and log-sum-exps (N,) or None, over all N queries."""

    shape: tuple[int, ...]
    output: Floats
    bounds: Floats
    lse: Floats | None
    lse_bound: float

    @staticmethod
    def of(problem: Problem, output: Tensor, bounds: Tensor, lse: Tensor | None, lse_bound: float) -> CallResults:
        check_shapes(problem, output, bounds, lse)
        shape = problem.output_shape[:-1]
        wide = np.broadcast_to(exact_floats(bounds), shape)
        flat = exact_floats(output).reshape(math.prod(shape), output.shape[-1])
        return CallResults(shape, flat, wide.ravel(), None if lse is None else exact_floats(lse).ravel(), lse_bound)

    def choose(self, count: int) -> list[int]:
        """Which queries to recompute, in order."""
        total = len(self.bounds)
        if total <= count:
            return list(range(total))
        wrong = np.flatnonzero(self._suspicious())[:1].tolist()
        first = [*wrong, int(self.bounds.argmax()), int(self.bounds.argmin()), 0, total - 1]
        chosen = list(dict.fromkeys(first))[:count]
        further = [i for i in _spread(total, count) if i not in chosen]
        return sorted([*chosen, *(further[i] for i in _spread(len(further), count - len(chosen)))])

    def _suspicious(self) -> NDArray[np.bool_]:
        """The queries, (N,), with results that are impossible for any input, as far as this is visible without
        recomputing them.

        Outputs must be finite. A log-sum-exp must be a number, or -inf if the query attends no tuple and its output is
        zero.
        """
        lse = np.zeros(len(self.output)) if self.lse is None else self.lse
        nothing = np.isneginf(lse) & (self.output == 0).all(1)
        suspicious: NDArray[np.bool_] = ~(np.isfinite(self.output).all(1) & (np.isfinite(lse) | nothing))
        return suspicious

    def index(self, flat: int) -> tuple[int, ...]:
        """The index of a query: its batch index, then its position."""
        return tuple(int(i) for i in np.unravel_index(flat, self.shape))


def check_shapes(problem: Problem, output: Tensor, bounds: Tensor, lse: Tensor | None) -> None:
    """Raise an `ArgumentError` unless the results have the shapes of the call."""
    shape = problem.output_shape[:-1]
    if tuple(output.shape) != problem.output_shape:
        expected = f"an output of shape {problem.output_shape}, for the arguments given"
        raise ArgumentError("result", expected=expected, got=f"shape {tuple(output.shape)}")
    if lse is not None and tuple(lse.shape) != shape:
        raise ArgumentError("result", expected=f"a log-sum-exp of shape {shape}", got=f"shape {tuple(lse.shape)}")
    try:
        bounds.expand(shape)
    except RuntimeError:
        expected = f"a certificate for each query, of shape {shape}"
        raise ArgumentError("result", expected=expected, got=f"shape {tuple(bounds.shape)}") from None


def _spread(total: int, count: int) -> list[int]:
    """`count` integers below `total`, spaced as evenly as possible."""
    numbers: list[int] = np.linspace(0, total - 1, count).round().astype(int).tolist()
    return numbers
