"""Sweeps: grids of cells that a TOML file describes by a baseline and, for each axis, the values that change.

A file names a registered experiment, never a Python module::

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

A range includes both ends and is computed in exact decimals: the third value of ``tau`` is 0.3, not
0.30000000000000004, and an end that the steps do not reach is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from separatrix.checks import either, is_whole
from separatrix.errors import ArgumentError
from separatrix.lab import tomlfile
from separatrix.lab.canonical_json import canonical, quoted
from separatrix.lab.cell import Cell
from separatrix.lab.ranges import MOST_VALUES, as_float, checked, decimal, spread
from separatrix.lab.registry import LARGEST_SEED, Experiment, named

COMBINATIONS = ("product", "one-at-a-time")
_MOST_CELLS = 2**63 - 1


@dataclass(frozen=True)
class Sweep:
    """A grid of cells; iterating over it makes the cells one by one.

    Attributes:
        experiment: the experiment.
        baseline: the values of the parameters that are not on an axis.
        axes: the values of each parameter on an axis.
        combine: one of `COMBINATIONS`: how the axes are combined.
        seeds: the seeds with which each point is run.
    """

    experiment: Experiment
    baseline: dict[str, Any]
    axes: dict[str, list[Any]]
    combine: str
    seeds: Sequence[int]

    def points(self) -> Iterator[dict[str, Any]]:
        """The points of the grid, as parameters; each is run with every seed."""
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
    """The sweep in a TOML file.

    Raises:
        SeparatrixError: it names the file and the line, or the field, what was expected, and what was given.
    """
    try:
        return _sweep(tomlfile.load(path, decimal))
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error.argument}", expected=error.expected, got=error.got) from error


def parse(text: str) -> Sweep:
    """The sweep in a TOML text.

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
    separatrix.errors.ArgumentError: axes.x.stride: expected from, to, and one of step and factor, got 'stride'.
    """
    return _sweep(tomlfile.parse(text, decimal))


def _sweep(table: dict[str, Any]) -> Sweep:
    for key in table:
        if key not in ("experiment", "combine", "trials", "seeds", "baseline", "axes"):
            raise ArgumentError(key, expected="experiment, combine, trials or seeds, baseline, axes", got=repr(key))
    recipe = named(_typed(table, "experiment", str, "a string"))
    combine = _typed(table, "combine", str, "a string", "product")
    if combine not in COMBINATIONS:
        raise ArgumentError("combine", expected=either(COMBINATIONS), got=quoted(combine))
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
            raise ArgumentError(
                f"baseline.{name}", expected=f"a value, because {recipe.name} has no default for it", got="nothing"
            )
    return sweep


def _typed(table: dict[str, Any], field: str, kind: type, words: str, default: Any = None) -> Any:
    value = table.get(field, default)
    if type(value) is not kind:
        raise ArgumentError(field, expected=words, got="nothing" if value is None else quoted(as_float(value)))
    return value


def _check_name(recipe: Experiment, field: str, name: str) -> None:
    if name not in recipe.hints:
        known = ", ".join(recipe.hints)
        raise ArgumentError(quoted(field, str), expected=f"a parameter of {recipe.name} ({known})", got=quoted(name))


def _fitted(recipe: Experiment, field: str, name: str, value: Any) -> Any:
    _check_name(recipe, field, name)
    return recipe.fitted(name, as_float(checked(value, field)), field)


def _axis(recipe: Experiment, name: str, value: Any) -> list[Any]:
    field = f"axes.{name}"
    _check_name(recipe, field, name)
    if not isinstance(value, dict | list) or not value:
        expected = "a list of values, or a range { from, to, step or factor }"
        raise ArgumentError(field, expected=expected, got=quoted(as_float(value)))
    _refuse_many(value, field)
    if isinstance(value, dict):
        fitted = [recipe.fitted(name, item, field) for item in spread(value, field)]
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
            raise ArgumentError(f"{field}[{i}]", expected="a value that did not come before", got=quoted(value))
        seen.add(text)


def _seeds(table: dict[str, Any]) -> Sequence[int]:
    if ("trials" in table) == ("seeds" in table):
        raise ArgumentError("trials", expected="either trials or seeds", got="both" if "trials" in table else "neither")
    if "trials" in table:
        trials = _typed(table, "trials", int, "an integer >= 1")
        if not is_whole(trials, low=1, high=LARGEST_SEED):
            raise ArgumentError("trials", expected="an integer from 1 to 2^63 - 1", got=quoted(trials))
        return range(trials)
    given = table["seeds"]
    seeds: Any = spread(given, "seeds") if isinstance(given, dict) else given
    if not isinstance(seeds, list) or not seeds:
        raise ArgumentError(
            "seeds", expected="a list of integers >= 0, or a range of them", got=quoted(as_float(seeds))
        )
    _refuse_many(seeds, "seeds")
    for i, seed in enumerate(seeds):
        if not is_whole(seed, low=0, high=LARGEST_SEED):
            raise ArgumentError(f"seeds[{i}]", expected="an integer from 0 to 2^63 - 1", got=quoted(as_float(seed)))
    _refuse_twins(seeds, "seeds")
    return list(seeds)
