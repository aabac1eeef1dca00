"""Phase diagrams: exact success over two parameters, and the line where it first reaches a level."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from separatrix.errors import ArgumentError
from separatrix.separation.boundary import Boundary, boundary
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import Number
from separatrix.separation.results import Bracket, Probabilities
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.softmax_regression import SoftmaxRegression

AnySetting = SoftmaxRegression | SelfAttention | CrossAttention


@dataclass(frozen=True)
class Phase:
    """A phase diagram, with one column for each setting.

    Attributes:
        parameter: the name of the parameter that changes within a column.
        values: the values of the parameter.
        columns: for each setting, the probabilities at each of the values.
        edges: for each setting, where success first reaches the level.
    """

    parameter: str
    values: tuple[Any, ...]
    columns: tuple[tuple[Probabilities | Bracket, ...], ...]
    edges: tuple[Boundary, ...]

    @property
    def success(self) -> tuple[tuple[float, ...], ...]:
        """The probability of success by column and value; the lower one where there are certified bounds."""
        return tuple(
            tuple(
                float(probability.low.success if isinstance(probability, Bracket) else probability.success)
                for probability in column
            )
            for column in self.columns
        )


def phase(
    settings: Sequence[AnySetting],
    parameter: Literal["d", "m", "a1"],
    values: Sequence[Number],
    level: float,
    *,
    candidates: Sequence[Number] | None = None,
) -> Phase:
    """The success of each setting with `parameter` at each of the values, and where it first reaches `level`.

    Args:
        settings: one setting for each column. They may differ in anything, for example in a0, or in n and with it m;
            their own value of `parameter` does not matter.
        parameter: the name of the parameter that changes within a column.
        values: the values of the parameter, which may lie outside the theorem's range, as in the paper's own sweeps.
        level: the probability that success must reach at the edge.
        candidates: the values among which `boundary` searches for the edge; by default `values`.

    Example:
        >>> settings = [CrossAttention(n, 2, 9, a0=0.01, a1=3) for n in (16, 64)]
        >>> diagram = phase(settings, "d", [2, 3, 5, 9, 17], 0.5)
        >>> [[round(success, 2) for success in column] for column in diagram.success]
        [[0.0, 0.06, 0.51, 0.78, 0.92], [0.0, 0.06, 0.51, 0.89, 0.92]]
        >>> [edge.value for edge in diagram.edges]
        [5, 5]
    """
    if not settings:
        raise ArgumentError("settings", expected="at least one", got=settings)
    if not values:
        raise ArgumentError("values", expected="at least one", got=values)
    looked_at = values if candidates is None else candidates
    edges = tuple(boundary(setting, parameter, level, candidates=looked_at) for setting in settings)
    columns = tuple(tuple(_at(setting, parameter, value) for value in values) for setting in settings)
    return Phase(parameter, tuple(values), columns, edges)


def _at(setting: AnySetting, parameter: str, value: Number) -> Probabilities | Bracket:
    changed: dict[str, Any] = {parameter: value, "strict": False}
    return dataclasses.replace(setting, **changed).success_probability()
