"""Results of the full profile, kept in `full_runs.json`, so that every test run judges them again.

`python -m tests.claims.full_runs STORE...` adds the results of claims all of whose cells are in the stores. Only the
entries that the checks read are kept, arrays to four digits. Cells that belong to no claim are omitted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from separatrix import claims, studies
from separatrix.claims import ledger
from separatrix.claims.ledger import CellResult, Claim
from separatrix.claims.verdicts import cell_result
from separatrix.lab import Store
from separatrix.lab.cell import Cell

FILE = Path(__file__).with_name("full_runs.json")
DIGITS = 4


def full_claims() -> dict[str, Claim]:
    """The claims of the full profile by their ids."""
    claims.load()
    studies.load()
    return {id: claim for id, claim in sorted(ledger._REGISTRY.items()) if claim.profile == "full"}


def kept() -> dict[str, dict[str, Any]]:
    """The kept results of each cell, by its key."""
    return {key: _read(result) for key, result in json.loads(FILE.read_text()).items()} if FILE.exists() else {}


def evidence(claim: Claim, results: Mapping[str, Mapping[str, Any]]) -> list[CellResult] | None:
    """The cell results on which a claim is judged, if all of them are kept."""
    cells = list(claim.cells())
    if any(cell.key not in results for cell in cells):
        return None
    return [CellResult(cell.arguments, cell.seed, results[cell.key]) for cell in cells]


class _Watched(dict[str, Any]):
    """A result that records which of its entries were read."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__(result)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


def _from_stores(stores: list[Store]) -> Iterator[tuple[Cell, _Watched]]:
    """The entries that the checks read, for the claims all of whose cells are in some store."""
    for claim in full_claims().values():
        cells = {cell.key: cell for cell in claim.cells()}
        results: dict[str, _Watched] = {}
        for store in stores:
            for cell, record in store.find(cells.values()):
                if record is not None and record.status == "done":
                    results.setdefault(cell.key, _Watched(cell_result(store, cell, record).result))
        results_of_claim = evidence(claim, results)
        if results_of_claim is not None:
            claim.judged(results_of_claim)
            yield from ((cells[key], result) for key, result in results.items())


def _written(value: Any) -> Any:
    """A value as JSON: arrays become lists with their shape and dtype."""
    if isinstance(value, np.ndarray):
        short = [float(f"{x:.{DIGITS}g}") if isinstance(x, float) else x for x in value.ravel().tolist()]
        return {"array": short, "shape": value.shape, "type": str(value.dtype)}
    if isinstance(value, Mapping):
        return {name: _written(entry) for name, entry in value.items()}
    return [_written(entry) for entry in value] if isinstance(value, list | tuple) else value


def _read(value: Any) -> Any:
    """The value that `_written` converted to JSON."""
    if isinstance(value, list):
        return [_read(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array", "shape", "type"}:
        return np.array(value["array"], value["type"]).reshape(value["shape"])
    return {name: _read(entry) for name, entry in value.items()}


def main(folders: list[str]) -> None:
    known = {cell.key for claim in full_claims().values() for cell in claim.cells()}
    text = json.loads(FILE.read_text()) if FILE.exists() else {}
    text = {key: value for key, value in text.items() if key in known}
    recorded: dict[str, dict[str, Any]] = {}
    for cell, result in _from_stores([Store.open(folder) for folder in folders]):
        into = recorded.setdefault(cell.key, {})
        into |= {name: _written(value) for name, value in result.items() if name in result.read}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted((text | recorded).items())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
