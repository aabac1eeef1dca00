"""The public names, the modules that define them, and the pages that show them."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType

PAGES = {
    "separatrix": ("separatrix",),
    "nn": ("separatrix.nn",),
    "forms": ("separatrix.attention.forms",),
    "attention": ("separatrix.attention.sharded", "separatrix.attention.features", "separatrix.attention.reference"),
    "separation": ("separatrix.separation",),
    "selection": ("separatrix.selection",),
    "hardness": ("separatrix.hardness",),
    "studies": (
        "separatrix.studies.learning.tasks.task",
        "separatrix.studies.learning.tasks.recall",
        "separatrix.studies.learning.tasks.match",
        "separatrix.studies.learning.tasks.text",
        "separatrix.studies.learning.mechanisms",
        "separatrix.studies.learning.models",
        "separatrix.studies.learning.compute",
        "separatrix.studies.learning.sharpness",
        "separatrix.studies.learning.training",
    ),
    "lab": ("separatrix.lab",),
    "hf": ("separatrix.hf",),
}
"""The modules whose `__all__` a page of the API shows."""


FIRST = (
    "tensor_attention",
    "certified_attention",
    "TensorAttention",
    "plan_attention",
    "linear_attention",
    "TensorAttentionState",
    "verify",
    "top_tuples",
)
"""The most used names: a page of the API lists the ones among its names first, in this order."""


@dataclass(frozen=True)
class Name:
    """A public name, the module it is imported from, and the module that defines it."""

    module: str
    name: str
    home: str

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def value(self) -> object:
        return getattr(import_module(self.module), self.name)


@cache
def names(page: str) -> tuple[Name, ...]:
    """The names that a page shows: those of `FIRST`, then the others in the order of `__all__`, without modules."""
    public = []
    for module in PAGES[page]:
        room = import_module(module)
        for name in room.__all__:
            value = getattr(room, name)
            if not isinstance(value, ModuleType) and name != "__version__":
                public.append(Name(module, name, _home(room, name, value)))
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    return tuple(sorted(public, key=lambda name: ranks.get(name.name, len(FIRST))))


@cache
def links(home: str) -> dict[str, str]:
    """The full names of documented objects, by every name that the docstrings of a module use.

    A bare name is resolved in the module's own namespace, or in `separatrix`: other modules also have a `train` or
    `margin`.
    """
    full_names: dict[str, str] = {}
    for page in PAGES:
        for name in names(page):
            near = page in ("separatrix", _room(home)) or home in PAGES[page]
            for called in [name.full, name.full.removeprefix("separatrix."), *([name.name] if near else [])]:
                full_names.setdefault(called, name.full)
    return full_names


def _room(home: str) -> str:
    return home.split(".")[1] if "." in home else home


def _home(room: ModuleType, name: str, value: object) -> str:
    """The module that defines the name: functions and classes state it; for constants the imports are searched."""
    if inspect.isroutine(value) or inspect.isclass(value):
        home = value.__module__
        if isinstance(home, str) and home.startswith("separatrix"):
            return home
    for node in ast.walk(ast.parse(inspect.getsource(room))):
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return node.module
    return room.__name__
