"""A row of the store, and the seal that shows whether it is as it was written.

A row contains the SHA-256 of all of its other fields, its *seal*. It is checked whenever a row is read; a row whose
seal is wrong is damaged, and its cell counts as not run. The facts about an origin, which many rows share, are named by
their own SHA-256.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Self

from separatrix.lab.cell import Cell

COLUMNS = "key, experiment, version, parameters, seed, status, run, seconds, finished, origin, result, traceback"
"""The fields that the seal covers, in its order; the column of the seal itself comes after them."""

_NAMES = [*COLUMNS.split(", "), "seal"]
PUT = (
    f"INSERT INTO cells ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))}) "
    f"ON CONFLICT (key) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _NAMES)}"
)
"""The SQL statement that writes the values of a record, in the place of the row with its key if there is one."""

PUT_ORIGIN = "INSERT INTO origins (id, facts) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET facts = excluded.facts"
"""The SQL statement that writes an origin under its name, also over one whose facts are damaged."""


@dataclass(frozen=True, slots=True)
class Record:
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
        """The values that `PUT` writes: the fields of the row, then their seal."""
        cell, origin = self.cell, None if self.origin is None else named(self.origin)
        which = (self.key, cell.experiment, cell.version, cell.parameters, cell.seed)
        what = (self.status, self.run, self.seconds, self.finished, origin, self.result, self.traceback)
        return (*which, *what, seal((*which, *what)))

    def without_origin(self) -> Self:
        """A copy of the record whose origin is not known."""
        return replace(self, origin=None)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A row that is not as it was written.

    Attributes:
        id: the value in the place of the row's number.
        key: the value in the place of its key.
        what: what is wrong.
        otherwise: the record without its origin, if only the origin is damaged; else None.
    """

    id: Any
    key: Any
    what: str
    otherwise: Record | None = None


def named(origin: str) -> str:
    """The name of an origin, which is the SHA-256 of its facts."""
    return sha256(origin.encode()).hexdigest()


def seal(fields: Sequence[Any]) -> str:
    """The SHA-256 of a row's fields.

    >>> seal(["key", 1, None]) == seal(["key", 1.0, None])
    False
    """
    return sha256(json.dumps(fields).encode()).hexdigest()


def read(row: Sequence[Any]) -> Record | Damaged:
    """The record of a row, or what is damaged in it.

    Args:
        row: the row's number, its fields, its seal, and the facts about its origin. In a damaged file each may be of
            any type.
    """
    id, *fields, sealed, facts = row
    try:
        whole = seal(fields) == sealed
    except TypeError:  # bytes, which no undamaged field holds
        whole = False
    if not whole:
        return Damaged(id, fields[0], "the row is not as it was written")
    key, experiment, version, parameters, seed, status, run, seconds, finished, origin, result, traceback = fields
    cell = Cell(experiment, version, parameters, seed)
    record = Record(key, cell, status, run, seconds, finished, facts, result, traceback)
    if origin is not None and not (isinstance(facts, str) and named(facts) == origin):
        what = "the facts about the origin of the result are lost; the result itself is as it was written"
        return Damaged(id, key, what, record.without_origin())
    return record
