"""The hypotheses of the paper as data: the settings check them, and the pages that show ranges read them here.

From Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou, "Why Softmax Attention Outperforms Linear Attention". A
hypothesis of a *definition* restricts the data sets, and a strict setting must satisfy it. A hypothesis of a *theorem*
restricts the data sets about which the paper makes a claim; it is never enforced, because the paper's own experiments
violate it (no b and c at all satisfy both Definition D.1 and Theorem E.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from separatrix.errors import ArgumentError

Level = Literal["definition", "theorem"]
Values = Mapping[str, Fraction]


@dataclass(frozen=True)
class ParameterRange:
    """A range of one parameter; a bound that is None is absent.

    >>> ParameterRange(0, Fraction(1, 10)).contains(Fraction(1, 10))
    False
    >>> str(ParameterRange(Fraction(7, 10), None, low_open=False))
    '[0.7, inf)'
    """

    low: Fraction | int | None
    high: Fraction | int | None
    low_open: bool = True
    high_open: bool = True

    def contains(self, value: Fraction) -> bool:
        """Whether a value lies in the range."""
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        return above and (self.high is None or (value < self.high if self.high_open else value <= self.high))

    def __str__(self) -> str:
        low = "-inf" if self.low is None else format(float(self.low), "g")
        high = "inf" if self.high is None else format(float(self.high), "g")
        return f"{'(' if self.low_open else '['}{low}, {high}{')' if self.high_open else ']'}"


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis of the paper, about one parameter's range or about a relation between parameters.

    Attributes:
        source: the definition, lemma or theorem that states it.
        level: whether it belongs to a definition or to a theorem.
        parameters: the names of the parameters it is about.
        statement: the hypothesis in words or as a formula.
        interval: the range of the first parameter, if the hypothesis is a range.
        relation: whether given values satisfy it, if the hypothesis is a relation.
    """

    source: str
    level: Level
    parameters: tuple[str, ...]
    statement: str
    interval: ParameterRange | None = None
    relation: Callable[[Values], bool] | None = None

    def __str__(self) -> str:
        return f"{self.source} ({self.statement})"

    def holds(self, values: Values) -> bool:
        """Whether these exact values satisfy the hypothesis."""
        if self.interval is not None and not self.interval.contains(values[self.parameters[0]]):
            return False
        return self.relation is None or self.relation(values)


def _range(source: str, level: Level, parameter: str, interval: ParameterRange) -> Hypothesis:
    return Hypothesis(source, level, (parameter,), f"{parameter} in {interval}", interval)


def _relation(source: str, level: Level, names: str, statement: str, relation: Callable[[Values], bool]) -> Hypothesis:
    return Hypothesis(source, level, tuple(names.split()), statement, relation=relation)


def _at_least(low: Fraction | int) -> ParameterRange:
    return ParameterRange(low, None, low_open=False)


_TENTH = Fraction(1, 10)

_SELF_ATTENTION_DATA = (
    _relation("Definition D.1", "definition", "n d", "n = (d - 2) t", lambda v: v["n"] % (v["d"] - 2) == 0),
    _range("Definition D.1", "definition", "a0", ParameterRange(0, _TENTH)),
    _range("Definition D.1", "definition", "a1", _at_least(Fraction(7, 10))),
    _range("Definition D.1", "definition", "b", _at_least(_TENTH)),
    _range("Definition D.1", "definition", "c", _at_least(_TENTH)),
    _relation("Definition D.1", "definition", "b c", "b + c = 1", lambda v: v["b"] + v["c"] == 1),
)

HYPOTHESES: Mapping[str, tuple[Hypothesis, ...]] = {
    "softmax regression": (
        _range("Definition 3.5", "definition", "tau", ParameterRange(0, None)),
        _range("Lemma 4.2", "theorem", "n", _at_least(4)),
    ),
    "self-attention, ones": (
        *_SELF_ATTENTION_DATA,
        _relation("Theorem 6.2", "theorem", "d n", "d <= n", lambda v: v["d"] <= v["n"]),
    ),
    "self-attention, identity": (
        *_SELF_ATTENTION_DATA,
        _range("Theorem E.4", "theorem", "a1", _at_least(1)),
        _range("Theorem E.4", "theorem", "b", ParameterRange(0, Fraction(1, 5))),
        _relation("Theorem E.4", "theorem", "b c", "b^2 + c^2 = 1", lambda v: v["b"] ** 2 + v["c"] ** 2 == 1),
        _relation("Theorem E.4", "theorem", "d n", "d <= n", lambda v: v["d"] <= v["n"]),
    ),
    "self-attention, other": _SELF_ATTENTION_DATA,
    "cross-attention": (
        _relation("Definition F.1", "definition", "n d", "n = (d - 1) t", lambda v: v["n"] % (v["d"] - 1) == 0),
        _range("Definition F.1", "definition", "a0", ParameterRange(0, _TENTH)),
        _range("Definition F.1", "definition", "a1", ParameterRange(1, None)),
        _relation("Theorem F.5", "theorem", "d n", "d <= n", lambda v: v["d"] <= v["n"]),
    ),
}
"""The paper's hypotheses on each kind of setting: the ranges and relations of its definition, then of its theorem.

"self-attention, other" is Definition D.1 with weights Q K^T that no theorem is about.
"""


def broken(kind: str, values: Values, level: Level | None = None) -> tuple[Hypothesis, ...]:
    """The hypotheses of a kind of setting that these exact values do not satisfy.

    Args:
        kind: a key of `HYPOTHESES`.
        values: the exact value of each parameter.
        level: "definition" or "theorem", to check the hypotheses of that level only; None checks both.

    Example:
        >>> values = {"n": Fraction(200), "d": Fraction(12), "a0": Fraction(1, 100), "a1": Fraction(3)}
        >>> [str(hypothesis) for hypothesis in broken("cross-attention", values)]  # 11 does not divide 200
        ['Definition F.1 (n = (d - 1) t)']
    """
    return tuple(h for h in HYPOTHESES[kind] if level in (None, h.level) and not h.holds(values))


def enforce(kind: str, values: Values) -> None:
    """Raise an error if these values do not satisfy a hypothesis of the definition.

    Raises:
        ArgumentError: if a hypothesis is not satisfied; the message names the first one.

    Example:
        >>> values = {"n": Fraction(200), "d": Fraction(12), "a0": Fraction(1, 100), "a1": Fraction(3)}
        >>> enforce("cross-attention", values)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: n, d: expected n = (d - 1) t, got n = 200, d = 12. \
This breaks Definition F.1 (n = (d - 1) t).
    """
    for hypothesis in broken(kind, values, "definition"):
        got = ", ".join(f"{name} = {_decimal(values[name])}" for name in hypothesis.parameters)
        names = ", ".join(hypothesis.parameters)
        raise ArgumentError(names, expected=hypothesis.statement, got=got, hypothesis=str(hypothesis))


def _decimal(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else format(float(value), "g")
