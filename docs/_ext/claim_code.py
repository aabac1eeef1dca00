"""The files of the library that a claim's experiments run, found by inspecting their code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import separatrix
from separatrix.claims.ledger import Claim
from separatrix.lab import registry
from separatrix.lab.registry import Experiment

PACKAGE = Path(separatrix.__file__).parent
SCIENCE = ("attention", "nn", "separation", "selection", "hardness")


def library_files(claim: Claim) -> list[str]:
    """The files whose functions and classes the claim's experiments use, also through other functions of the claims."""
    experiments = dict.fromkeys(cell.experiment for cell in claim.cells())
    todo: list[object] = [registry.named(name).function for name in experiments]
    seen: set[int] = set()
    files: set[str] = set()
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        room = _room(thing)
        if room in SCIENCE:
            files.add(_file(thing.__module__))
        elif room in ("claims", "studies") and isinstance(thing, FunctionType):
            todo += _named_by(thing)
        elif isinstance(thing, Experiment):
            todo.append(thing.function)
    return sorted(files)


def claim_files(claim: Claim) -> list[str]:
    """The file that declares the claim, and those with its experiments."""
    experiments = [registry.named(cell.experiment).function.__module__ for cell in claim.cells()]
    return [_file(module) for module in dict.fromkeys([claim.home, *experiments])]


def _room(thing: object) -> str | None:
    home = getattr(thing, "__module__", None)
    parts = home.split(".") if isinstance(home, str) else []
    return parts[1] if parts[:1] == ["separatrix"] and len(parts) > 1 and hasattr(thing, "__name__") else None


def _named_by(function: FunctionType) -> Iterator[object]:
    """The globals and the attributes of modules to which a function's code refers."""
    names = set(_names(function.__code__))
    globals_named = [function.__globals__[name] for name in names if name in function.__globals__]
    for thing in globals_named:
        if isinstance(thing, ModuleType) and thing.__name__.startswith("separatrix"):
            yield from (getattr(thing, name) for name in names if hasattr(thing, name))
        else:
            yield thing


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _file(module: str) -> str:
    path = Path(*module.split(".")[1:])
    return (path / "__init__.py" if (PACKAGE / path).is_dir() else path.with_suffix(".py")).as_posix()
