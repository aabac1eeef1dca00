"""The library from which the kernels take PyTorch's threads."""

from __future__ import annotations

import ctypes

import pytest

from separatrix import torch_threads
from separatrix.torch_threads import lending_library


def test_no_library_where_torch_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_threads, "find_spec", lambda name: None)
    lending_library.cache_clear()
    try:
        assert lending_library() is None
    finally:
        lending_library.cache_clear()


def test_a_library_that_needs_others_is_loaded_after_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the loader does not find torch's GPU libraries, importing torch does."""
    load, refused = ctypes.CDLL, ["once"]

    def first_refuses(name: str) -> ctypes.CDLL:
        if refused:
            raise OSError(f"{refused.pop()}: cannot open shared object file")
        return load(name)

    expected = lending_library()
    monkeypatch.setattr(ctypes, "CDLL", first_refuses)
    lending_library.cache_clear()
    try:
        assert (lending_library() is None) == (expected is None)
        assert not refused or expected is None
    finally:
        lending_library.cache_clear()
