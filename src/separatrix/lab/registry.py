"""Experiments, registered by name, so that a file names an experiment and never a Python module to import.

>>> @experiment(version=2, name="docs.coin")
... def coin(p: float = 0.5, *, seed: int) -> dict[str, bool]:
...     return {"heads": (seed * 0.618034) % 1 < p}
>>> coin.cell(seed=3).parameters
'{"p":0.5}'
>>> coin.cell(seed=3, q=1)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: parameters of docs.coin: expected p and no other, got 'q'.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, get_type_hints

from separatrix.checks import is_whole, whole
from separatrix.errors import ArgumentError
from separatrix.lab import canonical_json
from separatrix.lab.cell import Cell

_REGISTRY: dict[str, Experiment] = {}
LARGEST_SEED = 2**63 - 1
_NAMELESS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Experiment:
    """A registered function of plain parameters and a seed.

    Attributes:
        name: the name under which it is registered.
        version: the version of the function. It must be increased when the meaning of its results changes;
            results of an older version stay in the store but are no longer found.
        function: the function. It returns a dict of numbers, strings, arrays, or lists and dicts of these.
    """

    name: str
    version: int
    function: Callable[..., Mapping[str, Any]]

    def __call__(self, *values: Any, **named: Any) -> Mapping[str, Any]:
        return self.function(*values, **named)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The type hint of each parameter except the seed."""
        hints = get_type_hints(self.function)
        return {name: hints.get(name) for name in inspect.signature(self.function).parameters if name != "seed"}

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of each parameter that has one."""
        given = {name: kind.default for name, kind in inspect.signature(self.function).parameters.items()}
        return {
            name: canonical_json.fitted(given[name], hint, f"{self.name}({name})")
            for name, hint in self.hints.items()
            if given[name] is not inspect.Parameter.empty
        }

    def fitted(self, name: str, value: Any, called: str | None = None) -> Any:
        """Check the value of one parameter, and return it as the parameter's type.

        Args:
            name: the name of the parameter.
            value: the value of the parameter.
            called: what an error calls the parameter; by default its name.

        Raises:
            ArgumentError: if there is no such parameter, or the value does not fit its type.
        """
        if name not in self.hints:
            known = ", ".join(self.hints) or "none"
            raise ArgumentError(
                f"parameters of {self.name}", expected=f"{known} and no other", got=repr(called or name)
            )
        return canonical_json.fitted(value, self.hints[name], called or name)

    def cell(self, *, seed: int, **parameters: Any) -> Cell:
        """The cell at these parameters, with defaults written out: a changed default does not change the cell."""
        fit = {name: self.fitted(name, value) for name, value in parameters.items()}
        return self.fitted_cell(seed, fit)

    def fitted_cell(self, seed: int, parameters: Mapping[str, Any]) -> Cell:
        """The cell at parameters that `fitted` has already checked, such as those of a sweep."""
        seed = whole("seed", seed, low=0, high=LARGEST_SEED)
        complete = {**self.defaults, **parameters}
        if missing := [name for name in self.hints if name not in complete]:
            raise ArgumentError(
                f"parameters of {self.name}", expected="a value for each", got=f"none for {', '.join(missing)}"
            )
        return Cell(self.name, self.version, canonical_json.canonical(complete, "parameters"), seed)


def experiment(*, version: int, name: str | None = None) -> Callable[[Callable[..., Mapping[str, Any]]], Experiment]:
    """A decorator that registers a function as an experiment.

    Args:
        version: the version of the experiment, at least 1.
        name: the name of the experiment; by default that of the function.

    Raises:
        TypeError: when the decorator is applied, if the declaration is not valid.
    """

    def register(function: Callable[..., Mapping[str, Any]]) -> Experiment:
        registered = Experiment(name or function.__name__, version, function)
        if not is_whole(version, low=1):
            raise TypeError(f"experiment {registered.name}: the version must be an integer >= 1, not {version!r}")
        taken = inspect.signature(function).parameters
        if "seed" not in taken or any(kind.kind in _NAMELESS for kind in taken.values()):
            raise TypeError(f"experiment {registered.name}: it must take `seed`, and parameters that have names")
        for hint in registered.hints.values():
            canonical_json.spelled(hint)
        canonical_json.canonical(registered.defaults)
        old = _REGISTRY.get(registered.name)
        if old is not None and _place(old.function) != _place(function):
            raise TypeError(
                f"two experiments are called {registered.name}: {_place(old.function)} and {_place(function)}"
            )
        _REGISTRY[registered.name] = registered
        return registered

    return register


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    # In a spawned process the module of the main script is called __mp_main__.
    module = "__main__" if function.__module__ == "__mp_main__" else function.__module__
    return module, function.__qualname__


def known(name: str) -> bool:
    """Whether an experiment is registered under `name`."""
    return name in _REGISTRY


def named(name: str, argument: str = "experiment") -> Experiment:
    """The experiment that is registered under `name`; an error calls the name `argument`."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    near = get_close_matches(name, _REGISTRY, n=3, cutoff=0.0)
    hint = f" (nearest: {', '.join(near)})" if near else " (none is registered)"
    raise ArgumentError(argument, expected=f"the name of a registered experiment{hint}", got=repr(name))
