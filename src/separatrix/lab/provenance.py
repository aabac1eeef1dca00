"""Where a result comes from: version, git state, torch, machine. Facts of the process that made it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from separatrix import __version__
from separatrix.lab import plain


@cache
def origin() -> str:
    """The facts as canonical JSON, gathered once a process.

    >>> sorted(plain.read(origin()))
    ['cpu', 'git', 'host', 'numpy', 'python', 'separatrix', 'system', 'torch']
    """
    facts = {
        "separatrix": __version__,
        "git": git_state(Path(__file__).parents[1]),
        "torch": _installed("torch"),
        "numpy": _installed("numpy"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": f"{_cpu()}, {os.cpu_count()} cores",
        "host": platform.node(),
    }
    return plain.canonical(facts)


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def git_state(folder: Path) -> str | None:
    """The commit of the checkout that tracks `folder`, with ``+changes`` when it differs; None outside a checkout.

    A package installed inside somebody's checkout is not part of it, so the folder must hold a tracked file.
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
        return None  # no git here: the state is unknown, and is said to be
    return done.stdout.strip() or None if done.returncode == 0 else None


def _cpu() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
