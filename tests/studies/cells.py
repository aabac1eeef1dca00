"""Helpers for tests of the claims of the studies: the claims of a module, their cells, and modified results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from separatrix.claims import ledger
from separatrix.claims.ledger import CellResult, Claim
from tests.claims.cells import done


def claims_of(*modules: ModuleType) -> dict[str, Claim]:
    """The claims of some modules by their ids without the paper's name."""
    return {
        claim.id.removeprefix("beyond/"): claim
        for claim in ledger._REGISTRY.values()
        if claim.paper == "beyond" and any(claim in vars(module).values() for module in modules)
    }


def run_cells(claim: Claim) -> tuple[CellResult, ...]:
    """The results of all cells of a claim; a cell that claims share is run once."""
    return tuple(CellResult(cell.arguments, cell.seed, done(cell)) for cell in claim.cells())


def ran(id: str) -> tuple[CellResult, ...]:
    """The results of all cells of a claim, given by its id without the paper's name."""
    return run_cells(ledger._REGISTRY[f"beyond/{id}"])


def changed(cells: Sequence[CellResult], where: Callable[[CellResult], bool], **to: Any) -> list[CellResult]:
    """The results, with some entries of the first matching result replaced."""
    at = next(i for i, cell in enumerate(cells) if where(cell))
    cell = cells[at]
    assert to.keys() <= cell.result.keys()
    return [*cells[:at], replace(cell, result={**cell.result, **to}), *cells[at + 1 :]]


def given(**values: Any) -> Callable[[CellResult], bool]:
    """Whether a cell has these parameters."""
    return lambda cell: all(cell.parameters.get(name) == value for name, value in values.items())
