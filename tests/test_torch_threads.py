"""The number of PyTorch's threads, with and without `import torch`."""

from __future__ import annotations

import ctypes

import pytest
import torch

from separatrix import torch_threads
from separatrix.torch_threads import lending_library, thread_count

ASK = """
import os, sys
cores, *settings = sys.argv[1:]
if cores == "one" and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.pop(name, None)
os.environ.update(setting.split("=") for setting in settings)
from separatrix.torch_threads import thread_count
before, imported = thread_count(), "torch" in sys.modules
import torch
print(before == torch.get_num_threads() == thread_count(), imported, before)
torch.set_num_threads(3)
print(thread_count())
"""


@pytest.mark.parametrize(
    ("cores", "setting"),
    [
        ("all", ""),
        ("one", ""),
        *(("all", f"{name}_NUM_THREADS={count}") for name, count in [("OMP", 1), ("OMP", 5), ("MKL", 1)]),
    ],
)
def test_the_library_says_what_torch_says(run, cores: str, setting: str) -> None:
    """Whatever decides it: variables, the cores that the process may use, or what a caller has set."""
    done = run(ASK, cores, *([setting] if setting else []))
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.split()[:2] == ["True", str(lending_library() is None)]
    assert second == "3"


def test_torch_is_asked_where_its_library_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_threads, "find_spec", lambda name: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    lending_library.cache_clear()
    try:
        assert lending_library() is None
        assert thread_count() == 7
    finally:
        lending_library.cache_clear()


def test_a_library_that_needs_others_is_loaded_after_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries of GPUs that it is linked to are found by torch's import, where the loader does not find them."""
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
