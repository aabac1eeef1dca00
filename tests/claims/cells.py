"""The cells of claims, run once a process; those of the full profile with few steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from separatrix.claims import ledger, load
from separatrix.claims.ledger import Found
from separatrix.lab import results
from separatrix.lab.cell import Cell
from separatrix.lab.registry import named

_FEW = {"selection/figure-8": 520, "selection/theorem-3.5/trained-nets": 20}


@cache
def done(cell: Cell) -> Mapping[str, Any]:
    """A cell's result, written and read as the store does."""
    text, files = results.encode(named(cell.experiment)(seed=cell.seed, **cell.arguments))
    return results.decode(text, lambda digest: files[digest])


def cells_of(id: str) -> tuple[Cell, ...]:
    """The cells of a claim, given by its whole id."""
    load(id.partition("/")[0])
    return tuple(ledger._REGISTRY[id].cells())


@cache
def ran(id: str) -> tuple[Found, ...]:
    """What all cells of a claim give."""
    return tuple(Found(cell.arguments, cell.seed, done(cell)) for cell in cells_of(id))


@cache
def shortened(id: str) -> tuple[Found, ...]:
    """A full claim's cells with few steps at small sizes, so that its experiment, its check and its figures run."""
    found = []
    for cell in cells_of(id):
        given = cell.arguments
        few = {"steps": _FEW.get(id, 40), "records": 8}
        brief = {**given, **{name: value for name, value in few.items() if name in given}}
        if "batch" in given:
            brief |= {"T": 24, "q": 2, "d": 2, "width": 40, "batch": 8, "threshold": given["threshold"] + 0.35}
        found.append(Found(given, cell.seed, done(named(cell.experiment).cell(seed=cell.seed, **brief))))
    return tuple(found)
