"""Reads rows from the pages of a damaged SQLite file, without SQLite.

SQLite cannot read a table at all if a page that leads to its rows is damaged. The rows themselves are in leaf pages,
each of which can be read by itself: a byte for the kind of page, the places of its cells, and in each cell the length
of a record, its number, and the record, whose end may be in a chain of overflow pages. SQLite's document "Database File
Format" describes all of that.

The rows may be damaged too, so the caller must check them by their seals.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = 4096
_LEAF = 13
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""The number of bytes of each kind of integer."""
_FRAME = 24 + PAGE


class _Unreadable(Exception):
    """The bytes are not a record."""


def table_rows(path: Path) -> Iterator[list[Any]]:
    """The fields of every record in the leaf pages of a file, and of its write-ahead log."""
    pages = dict(enumerate(_cut(path.read_bytes(), 0, PAGE), 1))
    log = path.with_name(f"{path.name}-wal")
    frames = list(_cut(log.read_bytes(), 32, _FRAME)) if log.exists() else []
    for state in (pages, pages | {int.from_bytes(one[:4], "big"): one[24:] for one in frames}) if frames else (pages,):
        for number, page in state.items():
            yield from _leaf_rows(page, 100 if number == 1 else 0, state)


def _cut(data: bytes, start: int, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(start, len(data) - size + 1, size))


def _leaf_rows(page: bytes, start: int, pages: Mapping[int, bytes]) -> Iterator[list[Any]]:
    if page[start] != _LEAF:
        return
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for at in range(start + 8, min(start + 8 + 2 * count, PAGE - 1), 2):
        try:
            yield _fields(_payload(page, int.from_bytes(page[at : at + 2], "big"), pages))
        except _Unreadable:
            continue


def _payload(page: bytes, at: int, pages: Mapping[int, bytes]) -> bytes:
    """The bytes of a record, assembled from its page and its overflow pages."""
    size, at = _varint(page, at)
    _, at = _varint(page, at)
    if size > PAGE * len(pages):
        raise _Unreadable
    most, least = PAGE - 35, (PAGE - 12) * 32 // 255 - 23
    here = least + (size - least) % (PAGE - 4)
    here = size if size <= most else here if here <= most else least
    record, after = bytearray(page[at : at + here]), page[at + here : at + here + 4]
    while len(record) < size:
        overflow = pages.get(int.from_bytes(after, "big"))
        if overflow is None:
            raise _Unreadable
        record += overflow[4 : 4 + size - len(record)]
        after = overflow[:4]
    return bytes(record)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of seven bits per byte, the most significant first, and the position after it."""
    value = 0
    for i, byte in enumerate(data[at : at + 9]):
        if i == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    raise _Unreadable


def _fields(record: bytes) -> list[Any]:
    """The values of a record, which consists of the kinds of all values and then their bytes."""
    body, at = _varint(record, 0)
    kinds: list[int] = []
    while at < body:
        kind, at = _varint(record, at)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        size = _INTEGERS.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0)
        values.append(_value(kind, record[body : body + size], size))
        body += size
    return values


def _value(kind: int, data: bytes, size: int) -> Any:
    if len(data) != size or kind in (10, 11):
        raise _Unreadable
    if kind in _INTEGERS:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind >= 12:
        try:
            return data.decode() if kind % 2 else data
        except UnicodeDecodeError:
            raise _Unreadable from None
    return {0: None, 8: 0, 9: 1}[kind]
