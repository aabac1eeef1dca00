"""Experiments, registered by name, so that a file may name one and never a path of imports.

>>> @experiment(version=2, name="docs.coin")
... def coin(p: float = 0.5, *, seed: int) -> dict[str, bool]:
...     return {"heads": (seed * 0.618034) % 1 < p}
>>> coin.cell(seed=3).parameters
'{"p":0.5}'
>>> coin.cell(seed=3, q=1)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: parameters of docs.coin: expected p and no other, got q.
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
from separatrix.lab import plain
from separatrix.lab.cell import Cell

_REGISTRY: dict[str, Experiment] = {}
LARGEST_SEED = 2**63 - 1
_NAMELESS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Experiment:
    """A function of plain parameters and a seed, its name, and the version of its recipe.

    The function returns a dict of numbers, strings, arrays, or lists and dicts of these. Its version is bumped when its
    meaning changes: results of an older version are kept, and are no longer found.
    """

    name: str
    version: int
    function: Callable[..., Mapping[str, Any]]

    def __call__(self, *values: Any, **named: Any) -> Mapping[str, Any]:
        return self.function(*values, **named)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The type of each parameter but the seed."""
        hints = get_type_hints(self.function)
        return {name: hints.get(name) for name in inspect.signature(self.function).parameters if name != "seed"}

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The value of each parameter that need not be given."""
        given = {name: kind.default for name, kind in inspect.signature(self.function).parameters.items()}
        return {
            name: plain.fitted(given[name], hint, f"{self.name}({name})")
            for name, hint in self.hints.items()
            if given[name] is not inspect.Parameter.empty
        }

    def fitted(self, name: str, value: Any, called: str | None = None) -> Any:
        """One parameter's value, checked; `called` is how the user wrote its name."""
        if name not in self.hints:
            known = ", ".join(self.hints) or "none"
            raise ArgumentError(f"parameters of {self.name}", expected=f"{known} and no other", got=called or name)
        return plain.fitted(value, self.hints[name], called or name)

    def cell(self, *, seed: int, **parameters: Any) -> Cell:
        """The cell at these parameters, defaults written out, so that it does not move when a default does."""
        fit = {name: self.fitted(name, value) for name, value in parameters.items()}
        return self.fitted_cell(seed, fit)

    def fitted_cell(self, seed: int, parameters: Mapping[str, Any]) -> Cell:
        """The cell at parameters that went through `fitted` already, as a sweep's have."""
        seed = whole("seed", seed, low=0, high=LARGEST_SEED)
        complete = {**self.defaults, **parameters}
        if missing := [name for name in self.hints if name not in complete]:
            raise ArgumentError(
                f"parameters of {self.name}", expected="a value for each", got=f"none for {', '.join(missing)}"
            )
        return Cell(self.name, self.version, plain.canonical(complete, "parameters"), seed)


def experiment(*, version: int, name: str | None = None) -> Callable[[Callable[..., Mapping[str, Any]]], Experiment]:
    """Register the function below under its own name, or `name`.

    Mistakes in the declaration are the programmer's, a `TypeError` when the module is imported.
    """

    def register(function: Callable[..., Mapping[str, Any]]) -> Experiment:
        made = Experiment(name or function.__name__, version, function)
        if not is_whole(version, low=1):
            raise TypeError(f"experiment {made.name}: the version must be an integer >= 1, not {version!r}")
        taken = inspect.signature(function).parameters
        if "seed" not in taken or any(kind.kind in _NAMELESS for kind in taken.values()):
            raise TypeError(f"experiment {made.name}: it must take `seed`, and parameters that have names")
        for hint in made.hints.values():
            plain.spelled(hint)
        plain.canonical(made.defaults)
        old = _REGISTRY.get(made.name)
        if old is not None and _place(old.function) != _place(function):
            raise TypeError(f"two experiments are called {made.name}: {_place(old.function)} and {_place(function)}")
        _REGISTRY[made.name] = made
        return made

    return register


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    # A spawned process knows the module of the main script under a second name.
    module = "__main__" if function.__module__ == "__mp_main__" else function.__module__
    return module, function.__qualname__


def known(name: str) -> bool:
    """Whether an experiment is registered under `name`."""
    return name in _REGISTRY


def named(name: str, argument: str = "experiment") -> Experiment:
    """The experiment registered under `name`; `argument` is what an error calls it."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    near = get_close_matches(name, _REGISTRY, n=3)
    hint = f" (near it: {', '.join(near)})" if near else f" ({', '.join(sorted(_REGISTRY)) or 'there is none'})"
    raise ArgumentError(argument, expected=f"the name of a registered experiment{hint}", got=name)
