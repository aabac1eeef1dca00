"""Start, stop and resume small training runs from the page, one at a time.

`supervisor` stops a run when the explorer that started it ends; the run can be resumed later.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from separatrix.children import python_command, safe_environment
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer.learn.run_choices import RunChoices
from separatrix.explorer.learn.run_fields import asked_in
from separatrix.explorer.learn.training_state import (
    COMMAND,
    END,
    LOCK,
    NAME,
    STOP,
    TRAINING,
    alive,
    open_output,
    read_json,
    run_folder,
    run_status,
)
from separatrix.files import Held, hold, make_folder, open_regular, write_whole
from separatrix.lab.faults import plainly
from separatrix.lab.store import Store

MOST_RUNS = 50
LOCK_TRIES, LOCK_SECONDS = 3000, 0.01
"""The seconds to wait for the lock: checking whether a run is alive takes the lock for a moment, too."""


@dataclass
class Starter:
    """Starts and stops the training runs of a store. `held` are the supervisors, which end with this process."""

    store: Path
    held: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def start(self, asked: RunChoices) -> str:
        """Start a run, or resume it if it was started before; return its name."""
        name, training = asked.name(), self.store / TRAINING
        with self._one:
            Store.create(self.store).close()  # a store that cannot be written raises an error before the run starts
            folder = run_folder(self.store, name)
            make_folder(training)
            folders = [path.name for path in training.iterdir() if NAME.fullmatch(path.name)]
            if name in folders and run_status(self.store, name).word == "finished":
                raise SeparatrixError(f"{name} has these settings and is finished: another seed makes another run.")
            if name not in folders and len(folders) >= MOST_RUNS:
                raise SeparatrixError(f"There are {len(folders)} runs in {TRAINING}/ of the store: remove some first.")
            lock = self._locked(training)
            try:
                write_whole(folder / COMMAND, json.dumps(asdict(asked)).encode())
                self._keep(asked, lock)
            finally:
                os.close(lock)
        return name

    def go_on(self, name: str) -> None:
        """Resume a stopped run from its checkpoint.

        The command is made from the settings in the folder of the run, which are checked like those of the page.

        Raises:
            SeparatrixError: if the settings are invalid or are not those of a run of this name.
        """
        with self._one:
            if not run_status(self.store, self._known(name)).resumable:
                raise SeparatrixError(f"{name} cannot be resumed: it is {run_status(self.store, name).word}.")
            asked = asked_in(read_json(run_folder(self.store, name) / COMMAND), name)
            lock = self._locked(self.store / TRAINING)
            try:
                self._keep(asked, lock)
            finally:
                os.close(lock)

    def stop(self, name: str) -> None:
        """Ask the supervisor of a run to stop it."""
        if alive(self.store) != self._known(name):
            raise SeparatrixError(f"{name} is not running: it is {run_status(self.store, name).word}.")
        with plainly(mark := run_folder(self.store, name) / STOP):
            os.close(open_regular(mark, os.O_WRONLY | os.O_CREAT))

    def _known(self, name: str) -> str:
        if not NAME.fullmatch(name) or read_json(self.store / TRAINING / name / COMMAND) is None:
            raise ArgumentError("run", expected="a run that was started from the page", got=repr(name[:40]))
        return name

    def _locked(self, training: Path) -> int:
        """Open and lock the lock file of the store; processes that inherit the descriptor hold the lock, too."""
        if sys.platform == "win32":
            raise SeparatrixError("Runs cannot be started from the page on Windows: `separatrix train selection` can.")
        for _ in range(LOCK_TRIES):
            try:
                with plainly(training / LOCK):
                    return hold(training / LOCK)
            except Held:
                if name := alive(self.store):
                    raise SeparatrixError(
                        f"{name} is still running, and only one run at a time is allowed: stop it, or wait."
                    ) from None
                time.sleep(LOCK_SECONDS)
        raise SeparatrixError(f"The lock of {TRAINING}/ in the store is held, and no run is named in it: try again.")

    def _keep(self, asked: RunChoices, lock: int) -> None:
        """Write the run's name to the lock file, and start its supervisor in a new session, unaffected by Ctrl-C."""
        name = asked.name()
        os.ftruncate(lock, 0)
        os.pwrite(lock, name.encode("ascii"), 0)
        folder = run_folder(self.store, name).absolute()
        with plainly(folder):
            for mark in (STOP, END):
                (folder / mark).unlink(missing_ok=True)
            output = open_output(folder)
        words = [str(folder), str(lock), *asked.arguments(), "--store", str(self.store.absolute())]
        with output:
            self.held[name] = supervisor = subprocess.Popen(
                python_command("separatrix.explorer.learn.supervisor", *words),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=output,
                pass_fds=[lock],
                start_new_session=True,
                env=safe_environment(),
            )
        threading.Thread(target=_reaped, args=[supervisor], daemon=True).start()


def _reaped(supervisor: subprocess.Popen[bytes]) -> None:
    """Wait for a supervisor to end, so that it does not stay as a zombie process."""
    supervisor.wait()
    if supervisor.stdin is not None:
        supervisor.stdin.close()
