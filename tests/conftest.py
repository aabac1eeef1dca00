"""What all tests share: one thread per worker, fixed examples, long tests first, and child interpreters."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
import typer.testing
from hypothesis import settings

from separatrix.processor import ONEDNN_WITHOUT_AMX, amx_is_incomplete
from tests.forks import Forks

pytest.register_assert_rewrite("tests.contracts")
torch.set_num_threads(1)  # the workers of pytest-xdist already fill the cores
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for child processes; a test of threads sets more
if amx_is_incomplete():  # a bfloat16 product would crash the process
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", ONEDNN_WITHOUT_AMX)
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")
gc.disable()  # until all tests are collected
# Build the command line once, and not for each test that calls it, which takes 40 ms.
typer.testing._get_command = cache(typer.testing._get_command)

PLAIN = {"NO_COLOR": "1", "COLUMNS": "120"}
"""The terminal of child interpreters."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first: at the end of a run, one worker would still run them while the others are idle.

    Long tests are those with a larger timeout (`pytest.mark.timeout`), then those in a browser.
    """
    items.sort(key=_begins)


def pytest_collection_finish() -> None:
    """Enable garbage collection, but exclude the modules and tests that exist now, which live until the process ends.

    A collection then runs after 20,000 new objects; Python's default is 700.
    """
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def _begins(item: pytest.Item) -> tuple[float, bool]:
    """The priority of a test; tests of equal priority stay in the order of their files."""
    marker = item.get_closest_marker("timeout")
    usual = float(item.config.getini("timeout"))
    return (-max(usual, marker.args[0]) if marker else -usual, "browser" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True, scope="session")
def shared_cells(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the workers of a run share cell results, in the parent of their temporary folders."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ["SEPARATRIX_TEST_CELLS"] = str(tmp_path_factory.getbasetemp().parent / "cells")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code in a fresh interpreter, where warnings are errors, outside the checkout."""

    def fresh(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-c", code, *arguments]
        environment = {**os.environ, **PLAIN, **environment}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return fresh


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """A process that has imported torch and SciPy, to be forked."""
    forks = Forks()
    yield forks
    forks.end()


@pytest.fixture
def forked(tmp_path: Path, forks: Forks) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code as `run` does, in a fork of an interpreter that has imported torch and SciPy only.

    Tests of imports, and tests that set variables that torch reads at import, use `run`.
    """

    def start(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return forks.run(code, arguments, tmp_path, {**os.environ, **PLAIN, **environment})

    return start


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_is_heard() -> Iterator[None]:
    """Restore Python's own SIGINT handler, here and in child processes, also if a shell had it ignored.

    A shell ignores SIGINT for background processes, and every process passes this on.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
