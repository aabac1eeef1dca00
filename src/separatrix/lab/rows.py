"""A row of the store, and the checksum that detects modified rows.

A row contains the SHA-256 of all of its other fields, in the column ``seal``. It is checked whenever a row is read; a
row whose checksum is wrong is damaged, and its cell counts as not run. A store from an untrusted source may have
correct checksums over arbitrary data, so the type and the form of every field are checked too. The provenance data,
which many rows share, are stored once under their SHA-256.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import NoneType
from typing import Any

from separatrix.checks import is_whole
from separatrix.lab import arrays, canonical_json
from separatrix.lab.cell import Cell

COLUMNS = "key, experiment, version, parameters, seed, status, run, seconds, finished, origin, result, traceback"
"""The fields that the checksum covers, in its order; the column ``seal`` with the checksum comes after them."""

_NAMES = [*COLUMNS.split(", "), "seal"]
PUT = (
    f"INSERT INTO cells ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))}) "
    f"ON CONFLICT (key) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _NAMES)}"
)
"""The SQL statement that writes the values of a record, in place of the row with its key if there is one."""

PUT_ORIGIN = "INSERT INTO origins (id, facts) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET facts = excluded.facts"
"""The SQL statement that writes an origin under its name, also over one whose facts are damaged."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A row of the store.

    Attributes:
        key: the key of the cell.
        cell: the cell.
        status: ``done``, ``failed`` or ``running``; `Store.find` also returns ``damaged``.
        run: the name of the run that has taken the cell; None unless it is running.
        seconds: how long the cell took.
        finished: when it ended, in seconds since 1970.
        origin: the facts about the process that ran it, as JSON.
        result: the result as canonical JSON; None if there is none.
        traceback: the traceback of a failure; None if there is none.
    """

    key: str
    cell: Cell
    status: str
    run: str | None = None
    seconds: float | None = None
    finished: float | None = None
    origin: str | None = None
    result: str | None = None
    traceback: str | None = None

    @property
    def values(self) -> tuple[Any, ...]:
        """The values that `PUT` writes: the fields of the row, then their checksum."""
        cell, origin = self.cell, None if self.origin is None else named(self.origin)
        which = (self.key, cell.experiment, cell.version, cell.parameters, cell.seed)
        what = (self.status, self.run, self.seconds, self.finished, origin, self.result, self.traceback)
        return (*which, *what, row_checksum((*which, *what)))


@dataclass(frozen=True, slots=True)
class Damaged:
    """A row that does not match its checksum.

    Attributes:
        id: the value that the row has as its number, which may be damaged.
        key: the value that the row has as its key, which may be damaged.
        what: what is wrong.
        otherwise: the record without its origin, if only the origin is damaged; else None.
    """

    id: Any
    key: Any
    what: str
    otherwise: StoredRecord | None = None


def put(connection: sqlite3.Connection, record: StoredRecord) -> None:
    """Write a record and its origin, in place of the row with its key if there is one."""
    connection.execute(PUT, record.values)
    if record.origin is not None:
        connection.execute(PUT_ORIGIN, (named(record.origin), record.origin))


def named(origin: str) -> str:
    """The name of an origin, which is the SHA-256 of its facts."""
    return sha256(origin.encode()).hexdigest()


def row_checksum(fields: Sequence[Any]) -> str:
    """The checksum of a row: the SHA-256 of its fields.

    >>> row_checksum(["key", 1, None]) == row_checksum(["key", 1.0, None])
    False
    """
    return sha256(json.dumps(fields).encode()).hexdigest()


def read(row: Sequence[Any]) -> StoredRecord | Damaged:
    """The record of a row, or what is damaged in it.

    Args:
        row: the row's number, its fields, its checksum, and the facts about its origin. In a damaged file each may be
            of any type.
    """
    id, *fields, checksum, facts = row
    try:
        is_unchanged = row_checksum(fields) == checksum
    except TypeError:  # bytes, which no undamaged field contains
        is_unchanged = False
    if not is_unchanged:
        return Damaged(id, fields[0], "the row does not match its checksum")
    if (record := checked_record(fields, facts)) is None:
        return Damaged(id, fields[0], "the row has a correct checksum, but does not contain a cell and its result")
    if fields[9] is not None and record.origin is None:
        what = "the record of the origin of the result is damaged; the result itself matches its checksum"
        return Damaged(id, record.key, what, record)
    return record


def checked_record(fields: Sequence[Any], facts: Any) -> StoredRecord | None:
    """The record with these fields; None if one of them has another type or form than a run writes.

    Args:
        fields: the values of `COLUMNS`.
        facts: the facts about the origin. If their SHA-256 differs from the field ``origin``, the record has no
            provenance data.
    """
    key, experiment, version, parameters, seed, status, run, seconds, finished, origin, result, traceback = fields
    is_cell = isinstance(experiment, str) and is_whole(version, low=1) and is_whole(seed, low=0)
    if not is_cell or _table(parameters) is None or key != (cell := Cell(experiment, version, parameters, seed)).key:
        return None
    is_outcome = isinstance(traceback, _TEXT) and isinstance(origin, _TEXT)
    if not is_outcome or not (_is_time(seconds) and _is_time(finished) and _is_result(status, run, result)):
        return None
    is_origin = isinstance(facts, str) and named(facts) == origin and _table(facts) is not None
    return StoredRecord(key, cell, status, run, seconds, finished, facts if is_origin else None, result, traceback)


def _is_time(value: Any) -> bool:
    """Whether a value may be a duration or a moment in seconds; the year 10000 is out of range for a date."""
    return value is None or (isinstance(value, float) and 0 <= value < 253402300800)


def _is_result(status: Any, run: Any, result: Any) -> bool:
    """Whether a cell of this status may have this run and this result."""
    match status:
        case "running":
            return isinstance(run, str) and result is None
        case "failed":
            return run is None and result is None
        case "done":
            return run is None and _table(result) is not None
    return False


def _table(text: Any) -> dict[str, Any] | None:
    """The object of a canonical JSON text, with None for each array; None if the text is anything else."""
    # Canonical JSON escapes whatever is neither ASCII nor printable, so it can be written to a terminal.
    if not (isinstance(text, str) and text.isascii() and text.isprintable()):
        return None
    try:
        table = _DECODER.decode(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def _unmarked(inner: dict[str, Any]) -> Any:
    if inner.keys() == {"$array"}:
        arrays.checked_mark(inner["$array"])
        return None
    return canonical_json.unmarked(inner)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_TEXT = (str, NoneType)
_DECODER = json.JSONDecoder(object_hook=_unmarked, parse_constant=_refuse_constant)
