"""Starts Python child processes that import nothing from the working directory.

``python -m`` and ``python -c`` put the working directory first on the module path, so that a file ``json.py`` in it
would shadow Python's own. The working directory may not be trusted, so children get ``-P`` and ``PYTHONSAFEPATH=1``,
which their own children inherit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["SAFE_PATH", "python_command", "safe_environment", "safe_path"]

SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def python_command(module: str, *words: str) -> list[str]:
    """The command that runs one of our modules in a child process; use it with `safe_environment`."""
    return [sys.executable, "-P", "-m", module, *words]


def safe_environment() -> dict[str, str]:
    """The environment variables of a child process."""
    return {**os.environ, **SAFE_PATH}


@contextmanager
def safe_path() -> Iterator[None]:
    """Set the environment of a child for all processes that are started in the block, for example by `multiprocessing`.

    Processes that other threads start during the block get the same environment.
    """
    before = {name: os.environ.get(name) for name in SAFE_PATH}
    os.environ.update(SAFE_PATH)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
