"""A row of the store, and the seal that says whether it is as it was written.

A row keeps the SHA-256 of all of its other fields, its *seal*. Whoever reads a row checks it; a row that does not bear
its own seal is damaged, and its cell counts as not run. The facts of an origin, which many rows share, are named by
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
"""Writes the values of a record, in the place of the row that has its key, if there is one."""

PUT_ORIGIN = "INSERT INTO origins (id, facts) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET facts = excluded.facts"
"""Writes an origin by its name, also over one whose facts were damaged."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row of the store. `seconds`, `finished` (seconds since 1970) and `origin` are provenance."""

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
        """What `PUT` writes: the fields of the row, then their seal."""
        cell, origin = self.cell, None if self.origin is None else named(self.origin)
        which = (self.key, cell.experiment, cell.version, cell.parameters, cell.seed)
        what = (self.status, self.run, self.seconds, self.finished, origin, self.result, self.traceback)
        return (*which, *what, seal((*which, *what)))

    def without_origin(self) -> Self:
        """The same record from an origin that is not known."""
        return replace(self, origin=None)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A row that is not as it was written: what stands where its number and its key were, and what is wrong."""

    id: Any
    key: Any
    what: str
    otherwise: Record | None = None
    """The record, if all that is damaged is where it comes from."""


def named(origin: str) -> str:
    """The name of an origin: the SHA-256 of its facts."""
    return sha256(origin.encode()).hexdigest()


def seal(fields: Sequence[Any]) -> str:
    """The SHA-256 of a row's fields.

    >>> seal(["key", 1, None]) == seal(["key", 1.0, None])
    False
    """
    return sha256(json.dumps(fields).encode()).hexdigest()


def read(row: Sequence[Any]) -> Record | Damaged:
    """The record of a row: its number, its fields, its seal, and the facts of its origin.

    A damaged file may give anything in any of them: bytes for a text, a number for nothing.
    """
    id, *fields, sealed, facts = row
    try:
        whole = seal(fields) == sealed
    except TypeError:  # bytes, which no field ever holds
        whole = False
    if not whole:
        return Damaged(id, fields[0], "the row is not as it was written")
    key, experiment, version, parameters, seed, status, run, seconds, finished, origin, result, traceback = fields
    cell = Cell(experiment, version, parameters, seed)
    record = Record(key, cell, status, run, seconds, finished, facts, result, traceback)
    if origin is not None and not (isinstance(facts, str) and named(facts) == origin):
        what = "the facts of where the result comes from are lost, and the result is as it was written"
        return Damaged(id, key, what, record.without_origin())
    return record
