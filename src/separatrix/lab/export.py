"""Writes a store as a table or as JSON, row by row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store
from separatrix.lab.wording import printable

_FIRST = ("key", "experiment", "version", "seed", "status", "seconds", "finished")


def as_json(store: Store, stream: TextIO, experiment: str | None = None) -> None:
    """Write the records as a JSON list of objects; the SHA-256 of an array, which names its file, replaces it.

    Args:
        store: the store.
        stream: where to write.
        experiment: only the records of this experiment; None for all.
    """
    stream.write("[")
    for i, record in enumerate(store.records(experiment)):
        head = json.dumps(_head(record) | {"traceback": record.traceback})[:-1]
        texts = (record.cell.parameters, record.result or "null", record.origin or "null")
        tail = '"parameters": {}, "result": {}, "origin": {}}}'.format(*texts)
        stream.write(f"{',' if i else ''}\n{head}, {tail}")
    stream.write("\n]\n")


def _head(record: StoredRecord) -> dict[str, Any]:
    return {
        "key": record.key,
        "experiment": record.cell.experiment,
        "version": record.cell.version,
        "seed": record.cell.seed,
        "status": record.status,
        "seconds": record.seconds,
        "finished": moment(record.finished),
    }


def moment(seconds: float | None) -> str | None:
    """A time in seconds since 1970 as a date and time in UTC.

    >>> moment(0.0)
    '1970-01-01T00:00:00Z'
    """
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_csv(store: Store, stream: TextIO, experiment: str | None = None) -> None:
    """Write the records as CSV: a row for each cell, a column for each parameter and each value of a result.

    The names of nested values are joined by dots. Control characters are escaped; JSON keeps them.

    Args:
        store: the store.
        stream: where to write.
        experiment: only the records of this experiment; None for all.
    """
    columns: dict[str, None] = {}
    for record in store.records(experiment):
        columns.update(dict.fromkeys(_fields(record)))
    writer = csv.DictWriter(stream, [*_FIRST, *sorted(columns)], lineterminator="\n")
    writer.writeheader()
    for record in store.records(experiment):
        writer.writerow(_head(record) | {"experiment": printable(record.cell.experiment)} | _fields(record))


def _fields(record: StoredRecord) -> dict[str, Any]:
    parameters, result = json.loads(record.cell.parameters), json.loads(record.result or "{}")
    return dict(_flat("parameters", parameters)) | dict(_flat("result", result))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case {"$float": str(text)}:
            yield name, text
        case {"$array": {"sha256": digest}}:
            yield name, digest
        case Mapping():
            for key, item in value.items():
                yield from _flat(f"{name}.{printable(key)}", item)
        case list() | bool():
            yield name, json.dumps(value)
        case str():
            yield name, printable(value, keep="\n\t")
        case _:
            yield name, value
