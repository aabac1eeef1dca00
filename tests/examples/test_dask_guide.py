"""The page on Dask, executed: its own commands, 200 cells, one worker killed and one that joins late."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from separatrix.lab import Store
from separatrix.lab.faults import StoreError

distributed = pytest.importorskip("distributed")

PATIENCE = 900  # schedulers and workers start slowly on a busy machine


STARTS = (
    "python examples/dask_credentials.py",
    "export DASK_CONFIG",
    "dask scheduler",
    "dask worker",
    "separatrix sweep",
    "separatrix store verify",
    "separatrix store export",
)


def commands(root: Path) -> dict[str, list[str]]:
    """The commands of the page by their first words, with a free port."""
    text = (root / "docs" / "guide" / "dask.md").read_text()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    lines = re.findall(r"^```bash\n(.*?)\n```$", text, re.MULTILINE)
    assert len(lines) == len(STARTS)
    return {
        start: shlex.split(line.replace("8786", port)) for start in STARTS for line in lines if line.startswith(start)
    }


class Terminals:
    """Start commands as a user would, in the folder of examples, each as the leader of a process group."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path}

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        with (self.folder / f"{len(self.started)}.log").open("w") as log:
            process = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, start_new_session=True, stdout=log, stderr=log, text=True
            )
        self.started.append(process)
        return process

    def said(self) -> str:
        """The output of all commands, for the message of a failure."""
        return "\n".join(f"{log.name}:\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))

    def wait(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)

    def close(self) -> None:
        for process in reversed(self.started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def terminals(root: Path, tmp_path: Path) -> Iterator[Terminals]:
    (tmp_path / "examples").symlink_to(root / "examples")
    made = Terminals(tmp_path)
    try:
        yield made
    finally:
        made.close()


def done(store: Path) -> int:
    try:
        with Store.open(store) as kept:
            return sum(count for (_, status), count in kept.counts().items() if status == "done")
    except StoreError:  # there is no store yet
        return 0


def listens(address: str) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0


@pytest.mark.timeout(4 * PATIENCE)
def test_the_page_on_dask(root: Path, terminals: Terminals) -> None:
    page = commands(root)
    worker, sweep, store = page["dask worker"], page["separatrix sweep"], terminals.folder / "results"
    assert terminals.start(page["python examples/dask_credentials.py"]).wait(PATIENCE) == 0, terminals.said()
    credentials = terminals.folder / "credentials"
    assert stat.S_IMODE(credentials.stat().st_mode) == 0o700
    assert [path.name for path in credentials.iterdir()] == ["dask.yaml"]
    again = terminals.start(page["python examples/dask_credentials.py"])
    assert again.wait(PATIENCE) == 1
    assert "is there already: remove it" in terminals.said()
    name, _, value = page["export DASK_CONFIG"][1].partition("=")
    terminals.environment[name] = value.replace("$PWD", str(terminals.folder))
    scheduler = terminals.start(page["dask scheduler"])
    terminals.wait(lambda: listens(worker[2]))
    with pytest.raises(OSError, match=r"reset|closed|refus|Timed out"):  # without the credentials
        distributed.Client(worker[2].replace("tls:", "tcp:"), timeout=3, set_as_default=False)
    first, second = terminals.start(worker), terminals.start(worker)
    running = terminals.start(sweep)

    terminals.wait(lambda: done(store) > 0 or running.poll() is not None)
    os.killpg(second.pid, signal.SIGSTOP)
    os.killpg(first.pid, signal.SIGKILL)
    before = done(store)
    assert 0 < before < 200, terminals.said()
    third = terminals.start(worker)
    # The first worker is dead and the second is suspended: the third one does all further cells.
    terminals.wait(lambda: done(store) > before + 5)
    os.killpg(second.pid, signal.SIGCONT)
    terminals.wait(lambda: running.poll() is not None)

    assert running.returncode == 0, terminals.said()
    assert "200 of 200 cells are done" in terminals.said()
    assert done(store) == 200
    assert (second.poll(), third.poll(), scheduler.poll()) == (None, None, None), terminals.said()
    for look in ("verify", "export"):
        assert terminals.start(page[f"separatrix store {look}"]).wait(PATIENCE) == 0, terminals.said()
    assert "200 cells, all checksums match." in terminals.said()
    assert terminals.said().count("selection.sampled_isometry") >= 200
