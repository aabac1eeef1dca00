"""Run a training run for the page: ``python -m separatrix.explorer.learn.keeper FOLDER LOCK WORDS``.

The run itself is the command `separatrix WORDS`, a process of its own. The keeper stops it when a file ``stop`` appears
in the folder, or when its own standard input ends, which is when the explorer ends, in whatever way: a run never
outlives the page that shows it, and goes on from its checkpoint when it is asked to. If the keeper is killed, the run
stops itself. The file ``end.json`` says how it ended. LOCK is the number of an open file whose lock says that a run is
alive. WORDS come from the explorer, which makes them of checked numbers: no command is ever read from a file of the
store, which may come from somebody else. Nothing here imports torch.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from separatrix.children import python_command, safe_environment
from separatrix.explorer.learn.training_state import END, STOP, open_output
from separatrix.files import write_whole

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 20.0
"""From the request to stop until the run is ended by force."""


def main(folder: Path, lock: int, words: Sequence[str]) -> None:
    """Run a command, watch it, and say how it ended."""
    with (
        open_output(folder) as output,
        # The run holds the lock too: it counts as alive until it has ended, even if its keeper is killed.
        subprocess.Popen(
            python_command("separatrix.explorer.learn.kept_run", *words),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[lock],
            env=safe_environment(),
        ) as run,
    ):
        try:
            asked = watched(run, folder)
        except BaseException:  # a run that nobody watches would go on with nobody to stop it
            run.kill()
            raise
        code = run.wait()
    how = asked or ("finished" if code == 0 else "failed")
    write_whole(folder / END, json.dumps({"how": how, "code": code}).encode())


def watched(run: subprocess.Popen[bytes], folder: Path) -> str | None:
    """Wait until the run ends; the answer is who asked it to, if anyone did."""
    asked: str | None = None
    deadline = float("inf")
    while run.poll() is None:
        if asked is None:
            asked = _asked(folder)
            if asked:
                run.send_signal(signal.SIGINT)  # it ends, and has kept what it had at its last checkpoint
                deadline = time.monotonic() + PATIENCE_SECONDS
        else:
            time.sleep(POLL_SECONDS)
        if time.monotonic() > deadline:
            run.kill()
    return asked


def _asked(folder: Path) -> str | None:
    """Whether someone stopped the run, or the explorer ended; it waits a moment for either."""
    if (folder / STOP).exists():
        return "stopped"
    readable, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
    return "ended with the explorer" if readable and not os.read(sys.stdin.fileno(), 1) else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
