"""Starting a training run from the page, stopping it, and letting it go on: small ones, one at a time.

A run belongs to the explorer that started it: `keeper` ends it when the explorer ends, and it can go on later.
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
from separatrix.explorer.learn.asked_run import RunChoices
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
    run_folder,
    standing,
    told,
)
from separatrix.files import Held, hold, make_folder, open_regular, write_whole
from separatrix.lab.faults import plainly
from separatrix.lab.store import Store

MOST_RUNS = 50
LOCK_TRIES, LOCK_SECONDS = 3000, 0.01
"""Whoever looks whether a run is alive holds the lock for a moment: only a run holds it for long."""


@dataclass
class Starter:
    """Starts and stops the runs of one store. `held` are the keepers that end when this process does."""

    store: Path
    held: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def start(self, asked: RunChoices) -> str:
        """Begin a run, or let it go on if it was begun before; the answer is its name."""
        name, training = asked.name(), self.store / TRAINING
        with self._one:
            Store.create(self.store).close()  # a store that cannot be written is reported before the run begins
            folder = run_folder(self.store, name)
            make_folder(training)
            folders = [path.name for path in training.iterdir() if NAME.fullmatch(path.name)]
            if name in folders and standing(self.store, name).word == "finished":
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
        """Let a run that was stopped go on from its checkpoint.

        The command is made anew of the numbers that the folder of the run has, each checked as one from the page is.

        Raises:
            SeparatrixError: if the numbers are not those of a run of this name that the page could have started.
        """
        with self._one:
            if not standing(self.store, self._known(name)).resumable:
                raise SeparatrixError(f"{name} cannot go on: it is {standing(self.store, name).word}.")
            asked = asked_in(told(run_folder(self.store, name) / COMMAND), name)
            lock = self._locked(self.store / TRAINING)
            try:
                self._keep(asked, lock)
            finally:
                os.close(lock)

    def stop(self, name: str) -> None:
        """Ask a run to stop; its keeper sees to it."""
        if alive(self.store) != self._known(name):
            raise SeparatrixError(f"{name} does not run: it is {standing(self.store, name).word}.")
        with plainly(mark := run_folder(self.store, name) / STOP):
            os.close(open_regular(mark, os.O_WRONLY | os.O_CREAT))

    def _known(self, name: str) -> str:
        if not NAME.fullmatch(name) or told(self.store / TRAINING / name / COMMAND) is None:
            raise ArgumentError("run", expected="a run that was started from the page", got=repr(name[:40]))
        return name

    def _locked(self, training: Path) -> int:
        """An open file with the one lock there is; whoever inherits the file holds the lock."""
        if sys.platform == "win32":
            raise SeparatrixError("Runs cannot be started from the page on Windows: `separatrix train selection` can.")
        for _ in range(LOCK_TRIES):
            try:
                with plainly(training / LOCK):
                    return hold(training / LOCK)
            except Held:
                if name := alive(self.store):
                    raise SeparatrixError(
                        f"{name} still runs, and one run at a time is enough: stop it, or wait."
                    ) from None
                time.sleep(LOCK_SECONDS)
        raise SeparatrixError(f"The lock of {TRAINING}/ in the store is held, and no run is named in it: try again.")

    def _keep(self, asked: RunChoices, lock: int) -> None:
        """Name the run in the lock, and start a keeper for it that Ctrl-C, which ends the explorer, does not reach."""
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
            self.held[name] = keeper = subprocess.Popen(
                python_command("separatrix.explorer.learn.keeper", *words),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=output,
                pass_fds=[lock],
                start_new_session=True,
                env=safe_environment(),
            )
        threading.Thread(target=_reaped, args=[keeper], daemon=True).start()


def _reaped(keeper: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a keeper, so that the system forgets its process."""
    keeper.wait()
    if keeper.stdin is not None:
        keeper.stdin.close()
