"""``python -m tests.lab.failing_disk SCENARIO STRIDE``: let the disk fail at every STRIDE-th call of a small run.

SQLite's own tests simulate a failing disk at every call; this does the same to a sweep, a reproduction and a training
run. `failing_disk.c` must be loaded before the C library (LD_PRELOAD). Each case is a process forked from this one:

    an error        one call fails, and the run goes on if it can
    a full disk     from one call on there is no room; the write that meets it first is cut in half
    a kill          the process ends in the middle of a call, a write half done
    a power cut     all that was not flushed is lost, with the names of files or without

After each of them the run has ended well or with a sentence, what it left is sound, and the same command run again
brings the results of a run that nothing befell.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from click import Command
from click.testing import CliRunner
from typer.main import get_command

from separatrix import studies
from separatrix.claims import ledger
from separatrix.commands.app import app as whole_app
from separatrix.lab import Store
from separatrix.lab.upkeep import verify
from tests.lab.app import app as lab_app
from tests.lab.helpers import contents
from tests.lab.power_cut import Disk, calls

SWEEP = 'experiment = "tests.walk"\ntrials = 3\n[axes]\nsteps = [5, 700]\n'
CLAIMS = ("kronecker/definition-c.2", "kronecker/hypothesis-4.1", "separation/figure-3/tau")
TRAINING = {
    "--T": 9, "--q": 2, "--d": 2, "--d-e": 14, "--threshold": 0.6, "--batch": 6, "--steps": 40, "--lr": 0.8,
    "--validate-every": 10, "--checkpoint-every": 15,
}  # fmt: skip
MODES = {"an error": 1, "a full disk": 2, "a kill": 3}
KILLED = 137


@dataclass(frozen=True)
class Scenario:
    """A command that keeps something in a folder, and what it has kept when it is through."""

    words: Callable[[Path], list[str]]
    app: Command
    kept: Callable[[Path], Any]
    sound: Callable[[Path], None]

    def run(self, folder: Path) -> int:
        """Run the command; its status, or an error if it ends with a traceback."""
        done = CliRunner().invoke(self.app, self.words(folder))
        if not isinstance(done.exception, SystemExit | None):
            raise done.exception
        assert done.exit_code in (0, 2), done.output
        assert done.exit_code == 0 or done.stderr.count("separatrix: ") == 1, done.stderr
        return done.exit_code


def sound_store(folder: Path) -> None:
    if (folder / "store.sqlite").exists():
        Store.create(folder).close()  # as the next run does, also where the creation was cut short
        damages = [str(damage) for damage in verify(folder)]
        assert damages == [], damages


def reproduced(folder: Path) -> Any:
    page = (folder / "report-only.html").read_bytes()
    return contents(folder), page.endswith(b"</html>\n")


def scenarios(base: Path) -> dict[str, Scenario]:
    """The three commands, made here once for all forks; files that they read lie in `base`."""
    lab, whole = get_command(lab_app), get_command(whole_app)
    (base / "sweep.toml").write_text(SWEEP)
    sweep = ["sweep", str(base / "sweep.toml"), "--module", "tests.lab.experiments", "--in-process", "--store"]
    claim = ["reproduce", *(word for one in CLAIMS for word in ("--only", one)), "--in-process", "--store"]
    train = ["train", "selection", *(str(word) for option in TRAINING.items() for word in option), "--store"]
    return {
        "sweep": Scenario(lambda folder: [*sweep, str(folder)], lab, contents, sound_store),
        "reproduction": Scenario(lambda folder: [*claim, str(folder)], lab, reproduced, sound_store),
        "training": Scenario(lambda folder: [*train, str(folder)], whole, contents, sound_store),
    }


def keep_few_claims() -> None:
    """Make the ledger one of a few claims, so that a reproduction and its report take a moment each."""
    studies.load()
    few = {id: claim for id, claim in ledger._REGISTRY.items() if id in CLAIMS}
    ledger._REGISTRY.clear()
    ledger._REGISTRY.update(few)
    studies.load = lambda paper=None: None


def watch(folder: Path | None, mode: int, at: int, log: int = -1) -> None:
    ctypes.CDLL(None).disk_watch(b"" if folder is None else os.fsencode(folder), mode, ctypes.c_long(at), log)


def forked(work: Callable[[], int]) -> int:
    """Do some work in a process of its own; its status, 1 with a traceback if it raises."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def recovers(scenario: Scenario, folder: Path, expected: Any) -> int:
    """Check what is left in a folder, and that the same command brings what a run brings that nothing befell."""
    scenario.sound(folder)
    assert scenario.run(folder) == 0
    scenario.sound(folder)
    assert scenario.kept(folder) == expected, "the results are others"
    return 0


def cases(scenario: Scenario, base: Path, stride: int) -> Counter[str]:
    """Try every case; how many there were of each kind and end."""
    first = base / "whole" / "results"
    first.parent.mkdir()
    with (base / "log").open("w+b") as log:
        watch(first.parent, 0, 0, log.fileno())
        assert scenario.run(first) == 0
        watch(None, 0, 0)
        log.seek(0)
        done = list(calls(log.read()))
    expected = scenario.kept(first)
    gc.freeze()  # so that no fork searches all that was imported for garbage
    counted: Counter[str] = Counter({"calls": len(done)})
    for name, mode in MODES.items():
        for at in range(1, len(done) + 1, stride):
            above = base / "case"
            above.mkdir()

            def faulty(above: Path = above, mode: int = mode, at: int = at) -> int:
                watch(above, mode, at)
                return scenario.run(above / "results")

            status = forked(faulty)
            # Cells that end close to each other are written together, so a run may end before it makes so many calls.
            assert status in ((KILLED, 0) if mode == 3 else (0, 2)), f"{name} at call {at} of {len(done)}: {status}"
            again = forked(lambda above=above: recovers(scenario, above / "results", expected))
            assert again == 0, f"after {name} at call {at} of {len(done)}"
            counted[
                f"{name}, {'ended well' if status == 0 else 'ended with a sentence' if status == 2 else 'killed'}"
            ] += 1
            shutil.rmtree(above)
    disk = Disk()
    for number, call in enumerate(done, 1):
        disk.do(call)
        for names_are_early in (False, True) if number % stride == 0 or number == len(done) else ():
            above = base / "case"
            disk.left(str(first.parent), above, names_are_early=names_are_early)
            if number == len(done):
                assert scenario.kept(above / "results") == expected, "what was done is lost when the power fails"
            again = forked(lambda above=above: recovers(scenario, above / "results", expected))
            assert again == 0, f"after a power cut at call {number} of {len(done)}, names early: {names_are_early}"
            counted["a power cut"] += 1
            shutil.rmtree(above)
    return counted


def main(name: str, stride: int) -> None:
    torch.set_num_threads(1)
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        base = Path(folder).resolve()
        if name == "reproduction":
            keep_few_claims()
        print(json.dumps(cases(scenarios(base)[name], base, stride)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
