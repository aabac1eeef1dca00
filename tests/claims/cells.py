"""The cells of claims, run once for all processes of a test run, and verdicts.

Cells of the full profile are run with few steps. The results of long cells of the quick profile are read from
`quick_runs.json`.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from separatrix.claims import ledger, load
from separatrix.claims.ledger import CellResult, Verdict
from separatrix.claims.verdicts import expected
from separatrix.files import held, write_whole
from separatrix.lab import Store, results
from separatrix.lab.cell import Cell
from separatrix.lab.lease import Lease
from separatrix.lab.registry import named
from separatrix.lab.worker import CellOutcome
from tests.claims.quick_runs import reused

SHARED = "SEPARATRIX_TEST_CELLS"
"""The variable that names the folder in which the processes of a test run share cell results; see `conftest`."""
_FEW = {"selection/figure-8": 120, "selection/theorem-3.5/trained-nets": 20}


@cache
def outcome(cell: Cell) -> CellOutcome:
    """The result of a cell as the store keeps it; run once for all processes of a test run, unless it is recorded."""
    if (text := reused(cell.key)) is not None:
        return CellOutcome(result=text)
    if SHARED not in os.environ:
        return rerun(cell)
    folder = Path(os.environ[SHARED])
    folder.mkdir(exist_ok=True)
    file = folder / f"{cell.key}.json"
    with held(folder / f"{cell.key}.lock", wait=True):
        if not file.exists():
            made = rerun(cell)
            arrays = {digest: b64encode(data).decode() for digest, data in made.arrays.items()}
            write_whole(file, json.dumps([made.result, arrays]).encode())
            return made
        text, arrays = json.loads(file.read_bytes())
    return CellOutcome(result=text, arrays={digest: b64decode(data) for digest, data in arrays.items()})


def rerun(cell: Cell) -> CellOutcome:
    """The result of a cell, recomputed."""
    text, files = results.encode(named(cell.experiment)(seed=cell.seed, **cell.arguments))
    return CellOutcome(result=text, arrays=files)


def done(cell: Cell) -> Mapping[str, Any]:
    """The result of a cell after it was written and read as by the store."""
    result = outcome(cell)
    assert result.result is not None
    return results.decode(result.result, lambda digest: result.arrays[digest])


def put_into(store: Store, cells: Iterable[Cell]) -> None:
    """Write cell results into a store, as a run would."""
    keyed = [(cell.key, cell) for cell in cells]
    with Lease(store) as lease:
        lease.take(keyed, failed_too=False)
        lease.record([(key, cell, outcome(cell)) for key, cell in keyed])


@cache
def recorded() -> Mapping[str, Verdict]:
    """The recorded verdicts by id, read once for all tests."""
    return expected()


def cells_of(id: str) -> tuple[Cell, ...]:
    """The cells of a claim, given by its full id."""
    load(id.partition("/")[0])
    return tuple(ledger._REGISTRY[id].cells())


@cache
def ran(id: str) -> tuple[CellResult, ...]:
    """The results of all cells of a claim."""
    return tuple(CellResult(cell.arguments, cell.seed, done(cell)) for cell in cells_of(id))


@cache
def shortened(id: str) -> tuple[CellResult, ...]:
    """A full claim's cells with few steps and small sizes, so that its experiment, its check and its figures run."""
    results = []
    for cell in cells_of(id):
        arguments = cell.arguments
        few = {"steps": _FEW.get(id, 40), "records": 8}
        brief = {**arguments, **{name: value for name, value in few.items() if name in arguments}}
        if "batch" in arguments:
            brief |= {"T": 24, "q": 2, "d": 2, "width": 40, "batch": 8, "threshold": arguments["threshold"] + 0.35}
        results.append(CellResult(arguments, cell.seed, done(named(cell.experiment).cell(seed=cell.seed, **brief))))
    return tuple(results)
