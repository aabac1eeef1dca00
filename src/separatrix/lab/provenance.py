"""The origin of a result: facts about the process that computed it, such as versions, git state and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from separatrix import __version__
from separatrix.lab import canonical_json
from separatrix.processor import processor_name


@cache
def origin() -> str:
    """The facts about this process as canonical JSON; they are collected once.

    >>> sorted(canonical_json.read(origin()))
    ['cpu', 'git', 'host', 'numpy', 'python', 'separatrix', 'system', 'torch']
    """
    facts = {
        "separatrix": __version__,
        "git": git_state(Path(__file__).parents[1]),
        "torch": _installed("torch"),
        "numpy": _installed("numpy"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": f"{processor_name()}, {os.cpu_count()} cores",
        "host": platform.node(),
    }
    return canonical_json.canonical(facts)


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def git_state(folder: Path) -> str | None:
    """The commit of the git checkout that tracks `folder`; None outside a checkout.

    It ends in ``+changes`` if files in the folder differ from the commit. A package that is merely installed inside
    a checkout is not part of it, so the folder must contain a tracked file.
    """
    if not _git(folder, "ls-files", "."):
        return None
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", ".")
    return commit and commit + ("+changes" if changes else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None  # without git the state is unknown, and is recorded as such
    return done.stdout.strip() or None if done.returncode == 0 else None
