"""The border of the separation: the smallest d, m or a1 at which success reaches a given probability."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

from separatrix.errors import ArgumentError
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import Number, exact
from separatrix.separation.results import Bracket
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.softmax_regression import SoftmaxRegression

AnySetting = SoftmaxRegression | SelfAttention | CrossAttention

_COARSE = 64
_LARGEST_M, _LARGEST_D = 4096, 100_000
_STEP, _LARGEST_A1 = Decimal("0.001"), Decimal(3)


@dataclass(frozen=True)
class Boundary:
    """The value of a parameter at which success first reaches a level, as `boundary` found it.

    Attributes:
        parameter: the name of the parameter.
        level: the probability that success must reach.
        value: the candidate at which success is at least `level`; None if no evaluated candidate reaches it.
        success: the probability of success at `value`, or at `best` if `value` is None.
        before: the candidate before `value`, where success is below `level`; None if `value` is the first candidate.
        success_before: the probability of success at `before`.
        best: `value`, or the evaluated candidate with the largest success if `value` is None.
        looked_at: how many candidates were evaluated.
    """

    parameter: str
    level: float
    value: Any
    success: float
    before: Any
    success_before: float | None
    best: Any
    looked_at: int


def boundary(
    setting: AnySetting, parameter: Literal["d", "m", "a1"], level: float, *, candidates: Sequence[Number] | None = None
) -> Boundary:
    """Search for the smallest value of a parameter at which success >= level, all others as in `setting`.

    Success need not grow with the parameter: it increases and then decreases with m, and it jumps with d where sums
    become equal to tau. So about a hundred candidates are evaluated first, and the first crossing among those is then
    bisected. With at most 65 candidates the result is the smallest; with more, the search misses a success between two
    evaluated candidates that both fail. For softmax regression the certified lower bound has to reach the level.

    Args:
        setting: the setting, whose own value of the parameter does not matter.
        parameter: the name of the parameter to change.
        level: the probability that success must reach, strictly between 0 and 1.
        candidates: increasing values to choose from. By default m runs from 1 to 4096; d over the widths for which the
            number of classes divides n, up to 100 000; a1 over the multiples of 0.001 up to 3.

    Example:
        >>> setting = SelfAttention(n=256, d=18, m=15, a0=0.01, a1=1.2, b=0.2, c=0.8)
        >>> edge = boundary(setting, "d", 0.95)
        >>> edge.value, edge.before, round(edge.success, 3)
        (66, 34, 0.985)
        >>> boundary(setting, "m", 0.99).value is None
        True
    """
    if not 0 < level < 1:
        raise ArgumentError("level", expected="strictly between 0 and 1", got=repr(level))
    if parameter not in {field.name for field in dataclasses.fields(setting)} & {"d", "m", "a1"}:
        raise ArgumentError("parameter", expected='"d", "m" or "a1", and one the setting has', got=repr(parameter))
    values = _candidates(setting, parameter) if candidates is None else candidates
    exactly = [exact(value, "candidates") for value in values]
    if not exactly or any(x >= y for x, y in pairwise(exactly)):
        raise ArgumentError("candidates", expected="increasing values, at least one", got=repr(candidates))
    known: dict[int, float] = {}

    def success(index: int) -> float:
        if index not in known:
            changed: dict[str, Any] = {parameter: values[index], "strict": False}
            probability = dataclasses.replace(setting, **changed).success_probability()
            known[index] = probability.low.success if isinstance(probability, Bracket) else probability.success
        return known[index]

    coarse = _coarse(len(values))
    high = next((index for index in coarse if success(index) >= level), None)
    if high is None:
        best = max(coarse, key=success)
        return Boundary(parameter, level, None, success(best), None, None, values[best], len(known))
    low = max((index for index in coarse if index < high), default=-1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if success(middle) >= level else (middle, high)
    before, success_before = (None, None) if low < 0 else (values[low], success(low))
    return Boundary(parameter, level, values[high], success(high), before, success_before, values[high], len(known))


def _coarse(count: int) -> list[int]:
    """At most 128 of the indices 0, ..., count - 1, some evenly spaced and some evenly spaced in the logarithm.

    >>> _coarse(5), len(_coarse(4096))
    ([0, 1, 2, 3, 4], 119)
    """
    steps = [i / _COARSE for i in range(_COARSE + 1)]
    return sorted({round(s * (count - 1)) for s in steps} | {round(count**s) - 1 for s in steps})


def _candidates(setting: AnySetting, parameter: str) -> Sequence[Any]:
    if parameter == "m":
        return range(1, _LARGEST_M + 1)
    if parameter == "a1":
        return [_STEP * k for k in range(1, int(_LARGEST_A1 / _STEP) + 1)]
    extra = 2 if isinstance(setting, SelfAttention) else 1
    return [g + extra for g in range(1, min(setting.n, _LARGEST_D - extra) + 1) if setting.n % g == 0]
