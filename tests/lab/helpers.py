"""Helpers of the lab's tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from separatrix.lab import Cell, Crew, Store, in_process, run
from separatrix.lab.arrays import named_in
from separatrix.lab.lease import Lease
from separatrix.lab.progress import Tally
from separatrix.lab.worker import CellOutcome

ROOT = Path(__file__).resolve().parents[2]


def contents(folder: Path) -> dict[str, tuple[str, str | None, tuple[bytes, ...]]]:
    """The contents of a store without provenance; arrays are the bytes of their files."""
    with Store.open(folder) as store:
        return {
            record.key: (
                record.status,
                record.result,
                tuple(
                    (folder / "arrays" / digest[:2] / f"{digest}.safetensors").read_bytes()
                    for digest in named_in(record.result or "")
                ),
            )
            for record in store.records()
        }


def do(folder: Path, cells: Iterable[Cell], crew: Crew | None = None, **options: bool) -> Tally:
    """Run cells on the store in a folder."""
    with Store.create(folder) as store:
        return run(store, cells, crew or in_process(), **options)


def fill(folder: Path, cells: Iterable[Cell], result: str) -> None:
    """Write cells with a result into a store without running them."""
    keyed = [(cell.key, cell) for cell in cells]
    with Store.create(folder) as store, Lease(store) as lease:
        lease.take(keyed, failed_too=False)
        lease.record([(key, cell, CellOutcome(result=result)) for key, cell in keyed])


@contextmanager
def read_only_copy(folder: Path) -> Iterator[Path]:
    """A copy of a folder in which this user can write nothing, also if the tests run as root."""
    with TemporaryDirectory() as above:
        copy = shutil.copytree(folder, Path(above, "copy"), ignore=shutil.ignore_patterns("*-shm"))
        inside = [copy, *copy.rglob("*")]
        modes = {path: path.stat().st_mode for path in inside}
        Path(above).chmod(0o755)
        for path in inside:
            path.chmod(0o555 if path.is_dir() else 0o444)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield copy
        finally:
            os.seteuid(user)
            for path, mode in modes.items():
                path.chmod(mode)


def environment(warnings: str = "error") -> dict[str, str]:
    """The environment in which another Python finds this package and these tests; Dask's processes may warn."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "PYTHONWARNINGS": warnings}


def command(*arguments: str | Path) -> list[str]:
    """A command of the lab, for a separate process."""
    return [sys.executable, "-m", "tests.lab.app", *map(str, arguments)]


def start(*arguments: str | Path, warnings: str = "error") -> subprocess.Popen[str]:
    """Start such a command as the leader of a process group, with its output captured."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(*arguments), env=environment(warnings), start_new_session=True, **pipes)


def finish(*arguments: str | Path, warnings: str = "error") -> subprocess.CompletedProcess[str]:
    """Run such a command to its end."""
    return subprocess.run(
        command(*arguments), env=environment(warnings), capture_output=True, text=True, check=False, timeout=900
    )


def group_is_gone(group: int) -> bool:
    """Whether no process of a process group is left, except zombies."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgrp) == group and state != "Z":
            return False
    return True
