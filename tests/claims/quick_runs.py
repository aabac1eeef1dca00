"""Results of long cells of the quick profile, kept in `quick_runs.json`, so that the tests do not run them.

They take minutes, and `separatrix reproduce` runs all of them. `python -m tests.claims.quick_runs STORE...` replaces
the kept results by those of stores: cells that took longer than `LONG` seconds, of experiments with several such cells,
without arrays and with short results. The shortest cell of each experiment is marked ``rerun``: tests run it, so that
its new result enters the verdict, and `test_quick_runs` compares it with the kept one. `make soak` runs all of them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from separatrix import claims, studies
from separatrix.claims import ledger
from separatrix.lab import Store
from separatrix.lab.cell import Cell
from separatrix.lab.rows import StoredRecord

FILE = Path(__file__).with_name("quick_runs.json")
LONG, SHORT_RESULT = 0.1, 10_000
"""The results of cells that took more than `LONG` seconds are kept, if they have fewer than `SHORT_RESULT`
characters.
"""


@cache
def kept() -> Mapping[str, Mapping[str, Any]]:
    """The seconds and the result of each kept cell by its key, and a mark on the cells that tests rerun."""
    return json.loads(FILE.read_text())


def reused(key: str) -> str | None:
    """The kept result of a cell that tests do not rerun; None for all other cells."""
    row = kept().get(key)
    return None if row is None or "rerun" in row else row["result"]


def quick_cells() -> dict[str, Cell]:
    """All cells of the claims of the quick profile by their keys."""
    claims.load()
    studies.load()
    quick = [claim for claim in ledger._REGISTRY.values() if claim.profile == "quick"]
    return {cell.key: cell for claim in quick for cell in claim.cells()}


def _is_kept(record: StoredRecord | None) -> bool:
    return (
        record is not None
        and record.status == "done"
        and record.seconds > LONG
        and len(record.result) < SHORT_RESULT
        and '"$array"' not in record.result
    )


def main(folders: list[str]) -> None:
    cells = quick_cells()
    rows = {}
    for folder in folders:
        with Store.open(folder) as store:
            rows |= {cell.key: record for cell, record in store.find(cells.values()) if _is_kept(record)}
    counts = Counter(record.cell.experiment for record in rows.values())
    longest_first = sorted(rows.items(), key=lambda row: row[1].seconds, reverse=True)
    shortest = {record.cell.experiment: key for key, record in longest_first}
    lines = []
    for key, record in sorted(rows.items()):
        if counts[record.cell.experiment] > 1:
            row = {"seconds": round(record.seconds, 1), "result": record.result}
            marked = {**row, "rerun": True} if shortest[record.cell.experiment] == key else row
            lines.append(f"{json.dumps(key)}: {json.dumps(marked)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
