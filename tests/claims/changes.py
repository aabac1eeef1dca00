"""Modified cell results, and the verdict on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from separatrix.claims import ledger, load
from separatrix.claims.ledger import CellResult, Verdict

FAILS, HOLDS, NOT_REPRODUCED, UNDECIDED = (
    Verdict.FAILS_AS_PRINTED,
    Verdict.HOLDS,
    Verdict.NOT_REPRODUCED,
    Verdict.UNDECIDED,
)


def changed(results: Sequence[CellResult], **to: Any) -> list[CellResult]:
    """The results, with some entries replaced in the first result that has them."""
    at = next(i for i, cell in enumerate(results) if to.keys() <= cell.result.keys())
    return [*results[:at], replace(results[at], result={**results[at].result, **to}), *results[at + 1 :]]


def every(
    results: Sequence[CellResult], where: Callable[[CellResult], bool] = lambda cell: True, **to: Any
) -> list[CellResult]:
    """The results, with these entries replaced in every cell that has them and for which `where` is true."""
    chosen = [to.keys() <= cell.result.keys() and where(cell) for cell in results]
    assert any(chosen)
    return [
        replace(cell, result={**cell.result, **to}) if change else cell
        for cell, change in zip(results, chosen, strict=True)
    ]


def constant_along_paths(
    results: Sequence[CellResult], where: Callable[[CellResult], bool] = lambda cell: True, **to: float
) -> list[CellResult]:
    """The results, with columns along a path set to one value, in the cells that have such columns."""
    assert any(to.keys() <= cell.result.keys() and where(cell) for cell in results)
    return [
        replace(cell, result={**cell.result, **{name: [value] * len(cell.result[name]) for name, value in to.items()}})
        if to.keys() <= cell.result.keys() and where(cell)
        else cell
        for cell in results
    ]


def judge(id: str, results: Sequence[CellResult]) -> Verdict:
    """The verdict on a claim, given by its full id."""
    load(id.partition("/")[0])
    return ledger._REGISTRY[id].judged(results).verdict
