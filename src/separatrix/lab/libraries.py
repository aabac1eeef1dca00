"""The loaded libraries that have threads, looked for again only if a library was loaded or unloaded since."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import ClassVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


class _Library(ctypes.Structure):
    """What `dl_iterate_phdr` tells of a library, and with each how many were ever loaded and unloaded."""

    _fields_: ClassVar = [
        ("address", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("header_count", ctypes.c_uint16),
        ("loads", ctypes.c_ulonglong),
        ("unloads", ctypes.c_ulonglong),
    ]


_Seen = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)


def loads() -> tuple[int, int] | None:
    """How many libraries this process has ever loaded and unloaded; None where the system does not say."""
    if not sys.platform.startswith("linux"):
        return None
    found: list[tuple[int, int]] = []

    def first(library: ctypes._Pointer[_Library], size: int, _: int | None) -> int:
        if size >= ctypes.sizeof(_Library):
            found.append((library.contents.loads, library.contents.unloads))
        return 1

    ctypes.CDLL(None).dl_iterate_phdr(_Seen(first), None)
    return found[0] if found else None


@lru_cache(maxsize=1)
def _as_of(loads: tuple[int, int]) -> ThreadpoolController:
    return ThreadpoolController()


def with_threads() -> ThreadpoolController:
    """The libraries that have threads and are loaded now. To find them takes milliseconds, so they are remembered."""
    so_far = loads()
    return ThreadpoolController() if so_far is None else _as_of(so_far)
