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
from dataclasses import dataclass, field
from pathlib import Path

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer.learn.training_state import (
    COMMAND,
    END,
    LOCK,
    NAME,
    OUTPUT,
    STOP,
    TRAINING,
    alive,
    standing,
    told,
)
from separatrix.files import Held, hold, make_folder, write_whole
from separatrix.lab.store import Store
from separatrix.runs.cells import name_of
from separatrix.selection.settings import TrainingSettings

MOST_RUNS = 50
THRESHOLD, BATCH = 0.5, 64
RECORDS, CHECKPOINTS = 100, 20
LOCK_TRIES, LOCK_SECONDS = 50, 0.01
"""Whoever looks whether a run is alive holds the lock for a moment: only a run holds it for long."""


@dataclass(frozen=True)
class Asked:
    """What a visitor may choose of a run."""

    T: int
    q: int
    d: int
    width: int
    eta: float
    steps: int
    seed: int

    def arguments(self) -> list[str]:
        """Give the words of the command after `separatrix`, without its store."""
        settings = self.settings()
        numbers = {"T": self.T, "q": self.q, "d": self.d, "d-e": self.width, "threshold": THRESHOLD, "lr": self.eta}
        numbers |= {"batch": BATCH, "steps": self.steps, "seed": self.seed, "validate-every": settings.validate_every}
        numbers |= {"checkpoint-every": self.checkpoint_every}
        words = [word for name, value in numbers.items() for word in (f"--{name}", repr(value))]
        for name, tasks in (("T", settings.validation_T), ("q", settings.validation_q)):
            words += [word for task in tasks for word in (f"--validation-{name}", str(task))]
        return ["train", "selection", *words]

    def settings(self) -> TrainingSettings:
        """Make the settings of the run, which are checked here: nothing is started that would be refused."""
        return TrainingSettings(
            T=self.T,
            q=self.q,
            d=self.d,
            width=self.width,
            threshold=THRESHOLD,
            lr=((0, self.eta),),
            batch=BATCH,
            steps=self.steps,
            seed=self.seed,
            validate_every=max(1, self.steps // RECORDS),
            validation_T=(2 * self.T,),
            validation_q=(min(self.q + 2, self.T),),
        )

    @property
    def checkpoint_every(self) -> int:
        """The steps between two states that are kept."""
        return max(1, self.steps // CHECKPOINTS)

    def name(self) -> str:
        """Name the run, as the store does: equal choices are the same run."""
        return name_of(self.settings(), self.checkpoint_every)

    def command(self) -> str:
        """Write the command that does the same."""
        return f"separatrix {' '.join(self.arguments())}"

    def python(self) -> str:
        """The program that does the same."""
        settings = self.settings()
        chosen = ("T", "q", "d", "width", "threshold", "lr", "batch", "steps", "seed", "validate_every")
        words = [f"{name}={getattr(settings, name)!r}" for name in (*chosen, "validation_T", "validation_q")]
        lines = ["from separatrix.selection import TrainingSettings, train", "", "settings = TrainingSettings("]
        lines += [f"    {', '.join(words[at : at + 6])}," for at in range(0, len(words), 6)]
        return "\n".join([*lines, ")", "for record in train(settings):", "    print(record.step, record.loss)"])


@dataclass
class Starter:
    """Starts and stops the runs of one store. `held` are the keepers that end when this process does."""

    store: Path
    held: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def start(self, asked: Asked) -> str:
        """Begin a run, or let it go on if it was begun before; the answer is its name."""
        name, training = asked.name(), self.store / TRAINING
        words = {"arguments": asked.arguments(), "seed": asked.seed, "steps": asked.steps}
        with self._one:
            Store.create(self.store).close()  # a store that cannot be written is reported before the run begins
            make_folder(training)
            folders = [one.name for one in training.iterdir() if NAME.fullmatch(one.name)]
            if name in folders and standing(self.store, name).word == "finished":
                raise SeparatrixError(f"{name} has these settings and is finished: another seed makes another run.")
            if name not in folders and len(folders) >= MOST_RUNS:
                raise SeparatrixError(f"There are {len(folders)} runs in {TRAINING}/ of the store: remove some first.")
            lock = self._locked(training)
            try:
                write_whole(training / name / COMMAND, json.dumps(words).encode())
                self._keep(name, lock)
            finally:
                os.close(lock)
        return name

    def go_on(self, name: str) -> None:
        """Let a run that was stopped go on from its checkpoint."""
        with self._one:
            if not standing(self.store, self._known(name)).resumable:
                raise SeparatrixError(f"{name} cannot go on: it is {standing(self.store, name).word}.")
            lock = self._locked(self.store / TRAINING)
            try:
                self._keep(name, lock)
            finally:
                os.close(lock)

    def stop(self, name: str) -> None:
        """Ask a run to stop; its keeper sees to it."""
        if alive(self.store) != self._known(name):
            raise SeparatrixError(f"{name} does not run: it is {standing(self.store, name).word}.")
        (self.store / TRAINING / name / STOP).touch()

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
                return hold(training / LOCK)
            except Held:
                if name := alive(self.store):
                    raise SeparatrixError(
                        f"{name} still runs, and one run at a time is enough: stop it, or wait."
                    ) from None
                time.sleep(LOCK_SECONDS)
        raise SeparatrixError(f"The lock of {TRAINING}/ in the store is held, and no run is named in it: try again.")

    def _keep(self, name: str, lock: int) -> None:
        """Name the run in the lock, and start a keeper for it that Ctrl-C, which ends the explorer, does not reach."""
        os.ftruncate(lock, 0)
        os.pwrite(lock, name.encode("ascii"), 0)
        folder = self.store / TRAINING / name
        for mark in (STOP, END):
            (folder / mark).unlink(missing_ok=True)
        with (folder / OUTPUT).open("ab") as output:
            self.held[name] = keeper = subprocess.Popen(
                [sys.executable, "-m", "separatrix.explorer.learn.keeper", str(folder.absolute()), str(lock)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=output,
                pass_fds=[lock],
                start_new_session=True,
            )
        threading.Thread(target=_reaped, args=[keeper], daemon=True).start()


def _reaped(keeper: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a keeper, so that the system forgets its process."""
    keeper.wait()
    if keeper.stdin is not None:
        keeper.stdin.close()
