"""The grammar of sweeps: a baseline and, per axis, the values that change.

A file names a registered experiment, never an import path::

    experiment = "separation.simulate"
    combine = "product"          # or "one-at-a-time": each axis alone, the rest at the baseline
    trials = 100                 # the seeds 0 to 99; or: seeds = [3, 5, 8]

    [baseline]
    n = 1024
    weights = "identity"

    [axes]
    d = [8, 16, 32]
    tau = { from = 0.1, to = 0.5, step = 0.1 }
    m = { from = 1, to = 1024, factor = 2 }

A range includes both ends and is computed in exact decimals: the third value of `tau` is 0.3, not
0.30000000000000004, and an end that the steps do not reach is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from separatrix.errors import ArgumentError
from separatrix.lab import tomlfile
from separatrix.lab.cell import Cell
from separatrix.lab.plain import canonical, shown
from separatrix.lab.registry import LARGEST_SEED, Experiment, named

COMBINATIONS = ("product", "one-at-a-time")
MOST_VALUES = 100_000
"""Values of an axis, at most; and seeds that are listed."""
MOST_DIGITS = 400
"""Digits of a number, at most."""
_MOST_CELLS = 2**63 - 1


@dataclass(frozen=True)
class Sweep:
    """A grid of cells, made one by one. Every value has been checked against the experiment."""

    experiment: Experiment
    baseline: dict[str, Any]
    axes: dict[str, list[Any]]
    combine: str
    seeds: Sequence[int]

    def points(self) -> Iterator[dict[str, Any]]:
        """The settings, each of which is run with every seed."""
        if self.combine == "product" or not self.axes:
            for values in product(*self.axes.values()):
                yield {**self.baseline, **dict(zip(self.axes, values, strict=True))}
            return
        seen = set()
        for name in self.axes:
            for value in self.axes[name]:
                point = {**self.baseline, name: value}
                parameters = self.experiment.fitted_cell(0, point).parameters
                if parameters not in seen:
                    seen.add(parameters)
                    yield point

    def __iter__(self) -> Iterator[Cell]:
        for point in self.points():
            first = self.experiment.fitted_cell(self.seeds[0], point)
            for seed in self.seeds:
                yield Cell(first.experiment, first.version, first.parameters, seed)

    def __len__(self) -> int:
        if self.combine == "product" or not self.axes:
            return math.prod(map(len, self.axes.values())) * len(self.seeds)
        return sum(1 for _ in self.points()) * len(self.seeds)


def load(path: Path) -> Sweep:
    """The sweep of a file; an error names the file and the line, or the field, what was expected, and what came."""
    try:
        return _sweep(tomlfile.load(path, _decimal))
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error.argument}", expected=error.expected, got=error.got) from error


def parse(text: str) -> Sweep:
    """The sweep of a text in TOML.

    >>> from separatrix.lab import experiment
    >>> @experiment(version=1, name="docs.line")
    ... def line(x: float, slope: float = 1.0, *, seed: int) -> dict[str, float]:
    ...     return {"y": slope * x + seed}
    >>> sweep = parse('experiment = "docs.line"\\ntrials = 2\\n[axes]\\nx = {from = 0.1, to = 0.3, step = 0.1}')
    >>> len(sweep), sweep.axes
    (6, {'x': [0.1, 0.2, 0.3]})
    >>> parse('experiment = "docs.line"\\ntrials = 2\\n[axes]\\nx = {from = 0.1, to = 0.3, stride = 0.1}')
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: axes.x.stride: expected from, to, and one of step and factor, got stride.
    """
    return _sweep(tomlfile.parse(text, _decimal))


def _sweep(table: dict[str, Any]) -> Sweep:
    for key in table:
        if key not in ("experiment", "combine", "trials", "seeds", "baseline", "axes"):
            raise ArgumentError(key, expected="experiment, combine, trials or seeds, baseline, axes", got=key)
    recipe = named(_typed(table, "experiment", str, "a string"))
    combine = _typed(table, "combine", str, "a string", "product")
    if combine not in COMBINATIONS:
        raise ArgumentError("combine", expected=" or ".join(map(repr, COMBINATIONS)), got=shown(combine))
    baseline = {
        name: _fitted(recipe, f"baseline.{name}", name, value)
        for name, value in _typed(table, "baseline", dict, "a table", {}).items()
    }
    axes = {name: _axis(recipe, name, value) for name, value in _typed(table, "axes", dict, "a table", {}).items()}
    sweep = Sweep(recipe, baseline, axes, combine, _seeds(table))
    points = math.prod(map(len, axes.values())) if combine == "product" else sum(map(len, axes.values()))
    if points * len(sweep.seeds) > _MOST_CELLS:
        raise ArgumentError("axes", expected="at most 2^63 - 1 cells", got="more")
    always = {*recipe.defaults, *baseline, *(axes if combine == "product" or len(axes) == 1 else ())}
    for name in recipe.hints:
        if name not in always:
            raise ArgumentError(f"baseline.{name}", expected=f"a value, as {recipe.name} has no other", got="nothing")
    return sweep


def _typed(table: dict[str, Any], field: str, kind: type, words: str, default: Any = None) -> Any:
    value = table.get(field, default)
    if type(value) is not kind:
        raise ArgumentError(field, expected=words, got="nothing" if value is None else shown(_float(value)))
    return value


def _check_name(recipe: Experiment, field: str, name: str) -> None:
    if name not in recipe.hints:
        known = ", ".join(recipe.hints)
        raise ArgumentError(shown(field, str), expected=f"a parameter of {recipe.name} ({known})", got=shown(name, str))


def _fitted(recipe: Experiment, field: str, name: str, value: Any) -> Any:
    _check_name(recipe, field, name)
    return recipe.fitted(name, _float(_checked(value, field)), field)


def _decimal(text: str) -> Decimal:
    """A number of a file with a point or an exponent, exactly; one that a float64 can stand for."""
    try:
        value = Decimal(text) if len(text) <= MOST_DIGITS else None
    except InvalidOperation:
        value = None
    if value is None or (value.is_finite() and (math.isinf(float(value)) or (value and not float(value)))):
        expected = f"one of at most {MOST_DIGITS} digits, and neither too large nor too small for a float64"
        raise ArgumentError("a number", expected=expected, got=shown(text, str))
    return value


def _checked(value: Any, field: str) -> Any:
    """A value none of whose integers is too long."""
    match value:
        case int() if abs(value) >= 10**MOST_DIGITS:
            raise ArgumentError(field, expected=f"an integer of at most {MOST_DIGITS} digits", got="one of more")
        case list():
            return [_checked(item, f"{field}[{i}]") for i, item in enumerate(value)]
        case dict():
            return {key: _checked(item, f"{field}.{key}") for key, item in value.items()}
    return value


def _float(value: Any) -> Any:
    """A value of TOML with its decimals made floats, once nothing is to be computed from them."""
    match value:
        case Decimal():
            return float(value)
        case list():
            return [_float(item) for item in value]
        case dict():
            return {key: _float(item) for key, item in value.items()}
    return value


def _axis(recipe: Experiment, name: str, value: Any) -> list[Any]:
    field = f"axes.{name}"
    _check_name(recipe, field, name)
    if not isinstance(value, dict | list) or not value:
        expected = "a list of values, or a range { from, to, step or factor }"
        raise ArgumentError(field, expected=expected, got=shown(_float(value)))
    _refuse_many(value, field)
    if isinstance(value, dict):
        fitted = [recipe.fitted(name, item, field) for item in _range(value, field)]
    else:
        fitted = [_fitted(recipe, f"{field}[{i}]", name, item) for i, item in enumerate(value)]
    _refuse_twins(fitted, field)
    return fitted


def _refuse_many(values: Any, field: str) -> None:
    if len(values) > MOST_VALUES:
        raise ArgumentError(field, expected=f"at most {MOST_VALUES:,} values", got=f"{len(values):,}")


def _refuse_twins(values: Sequence[Any], field: str) -> None:
    seen: set[str] = set()
    for i, value in enumerate(values):
        text = canonical(value)
        if text in seen:
            raise ArgumentError(f"{field}[{i}]", expected="a value that did not come before", got=shown(value))
        seen.add(text)


def _range(table: dict[str, Any], field: str) -> list[int] | list[float]:
    """The values of a range, both ends included, as integers if all that is given is."""
    for key in table:
        if key not in ("from", "to", "step", "factor"):
            raise ArgumentError(f"{field}.{key}", expected="from, to, and one of step and factor", got=key)
    if ("step" in table) == ("factor" in table):
        raise ArgumentError(field, expected="one of step and factor", got="both" if "step" in table else "neither")
    exact = {key: _exact(table.get(key), f"{field}.{key}") for key in ("from", "to", *table)}
    first, last = exact["from"], exact["to"]
    values = _steps(first, last, exact["step"]) if "step" in exact else _powers(first, last, exact["factor"])
    if not values:
        expected = f"a value that the steps reach, within {MOST_VALUES:,} values"
        raise ArgumentError(f"{field}.to", expected=expected, got=shown(_float(table["to"])))
    whole = all(isinstance(value, int) for value in table.values())
    return [a // b for a, b in values] if whole else [a / b for a, b in values]  # both are exact, or rounded once


def _steps(first: Fraction, last: Fraction, step: Fraction) -> list[tuple[int, int]]:
    """The values from `first` to `last`, each as a fraction a / b; none if the steps do not reach it."""
    count = (last - first) / step if step else last - first
    if count.denominator > 1 or not 0 <= count < MOST_VALUES or not (step or first == last):
        return []
    below = math.lcm(first.denominator, step.denominator)
    start, stride = int(first * below), int(step * below)
    return [(start + i * stride, below) for i in range(int(count) + 1)]


def _powers(first: Fraction, last: Fraction, factor: Fraction) -> list[tuple[int, int]]:
    """The same of the values of which each is the last one times a factor.

    On the way from one end to the other, a prime's exponent in a value lies between those that it has in the ends. So a
    value with more digits than the two together is not on the way to `last`.
    """
    values = [first]
    most = first.denominator * last.denominator * max(first.numerator, 1) * max(last.numerator, 1)
    while first > 0 and factor > 0 and values[-1] != last and len(values) < MOST_VALUES:
        beyond = (values[-1] > last) == (factor > 1) or factor == 1
        if beyond or values[-1].numerator * values[-1].denominator > most:
            break
        values.append(values[-1] * factor)
    return [(value.numerator, value.denominator) for value in values] if values[-1] == last else []


def _exact(value: Any, field: str) -> Fraction:
    if type(value) is int or (isinstance(value, Decimal) and value.is_finite()):
        return Fraction(_checked(value, field))
    raise ArgumentError(field, expected="a number", got="nothing" if value is None else shown(_float(value)))


def _seeds(table: dict[str, Any]) -> Sequence[int]:
    if ("trials" in table) == ("seeds" in table):
        raise ArgumentError(
            "trials", expected="one of trials and seeds", got="both" if "trials" in table else "neither"
        )
    if "trials" in table:
        trials = _typed(table, "trials", int, "an integer >= 1")
        if not 1 <= trials <= LARGEST_SEED:
            raise ArgumentError("trials", expected="an integer from 1 to 2^63 - 1", got=shown(trials))
        return range(trials)
    given = table["seeds"]
    seeds: Any = _range(given, "seeds") if isinstance(given, dict) else given
    if not isinstance(seeds, list) or not seeds:
        raise ArgumentError("seeds", expected="a list of integers >= 0, or a range of them", got=shown(_float(seeds)))
    _refuse_many(seeds, "seeds")
    for i, seed in enumerate(seeds):
        if type(seed) is not int or not 0 <= seed <= LARGEST_SEED:
            raise ArgumentError(f"seeds[{i}]", expected="an integer from 0 to 2^63 - 1", got=shown(_float(seed)))
    _refuse_twins(seeds, "seeds")
    return list(seeds)
