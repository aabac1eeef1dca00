"""Upgrades a store of the previous schema.

Schema 1 had a digest of the result alone, and decided by the time of day whether a run was alive. Rows whose digest is
right are sealed and kept; other rows are left out, and so are cells that were running. The old file is kept beside the
new one.
"""

from __future__ import annotations

from contextlib import closing
from hashlib import sha256
from pathlib import Path

from separatrix.lab import schema
from separatrix.lab.cell import Cell
from separatrix.lab.rebuild import one_at_a_time, replace
from separatrix.lab.rows import Record

_ROWS = """
SELECT key, experiment, version, parameters, seed, status, seconds, finished, facts, result, traceback, digest
FROM cells LEFT JOIN origins ON origins.id = cells.origin WHERE status != 'running' ORDER BY cells.id
"""


def upgrade(folder: Path) -> None:
    """Replace the file of a store of schema 1 by one of schema 2; no other process may have it open."""
    with one_at_a_time(folder):
        records = []
        with closing(schema.connect(folder / "store.sqlite", "rw")) as old:
            if schema.pragma(old, "user_version") != "1":
                return  # another process has upgraded it
            for key, experiment, version, parameters, seed, *rest, digest in old.execute(_ROWS):
                cell = Cell(experiment, version, parameters, seed)
                status, seconds, finished, facts, result, traceback = rest
                if cell.key == key and digest == (None if result is None else sha256(result.encode()).hexdigest()):
                    records.append(Record(key, cell, status, None, seconds, finished, facts, result, traceback))
        replace(folder, records, "schema-1")
