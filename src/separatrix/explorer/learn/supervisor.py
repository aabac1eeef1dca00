"""Run a training run for the page: ``python -m separatrix.explorer.learn.supervisor FOLDER LOCK WORDS``.

The run itself is the command `separatrix WORDS` in a child process. The supervisor stops it when a file ``stop``
appears in the folder, or when the standard input of the supervisor is closed, which happens when the explorer ends for
any reason. So a run never outlives the explorer; it can be resumed from its checkpoint. If the supervisor is killed,
the run stops itself. The file ``end.json`` says how the run ended. LOCK is the descriptor of an open lock file, which
is locked while a run is alive. WORDS come from the explorer, which makes them from checked numbers; a command is never
read from a file of the store, which may come from an untrusted source. Nothing here imports torch.
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
"""The seconds between the request to stop and killing the run."""


def main(folder: Path, lock: int, words: Sequence[str]) -> None:
    """Run a command, watch it, and write how it ended to ``end.json``."""
    with (
        open_output(folder) as output,
        # The run inherits the lock, so that it counts as alive until it ends, even if its supervisor is killed.
        subprocess.Popen(
            python_command("separatrix.explorer.learn.supervised_run", *words),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[lock],
            env=safe_environment(),
        ) as run,
    ):
        try:
            asked = watched(run, folder)
        except BaseException:  # without its supervisor nothing could stop the run
            run.kill()
            raise
        code = run.wait()
    how = asked or ("finished" if code == 0 else "failed")
    write_whole(folder / END, json.dumps({"how": how, "code": code}).encode())


def watched(run: subprocess.Popen[bytes], folder: Path) -> str | None:
    """Wait until the run ends; return the name of what stopped it, or None."""
    asked: str | None = None
    deadline = float("inf")
    while run.poll() is None:
        if asked is None:
            asked = _asked(folder)
            if asked:
                run.send_signal(signal.SIGINT)  # the run's last checkpoint is in the store
                deadline = time.monotonic() + PATIENCE_SECONDS
        else:
            time.sleep(POLL_SECONDS)
        if time.monotonic() > deadline:
            run.kill()
    return asked


def _asked(folder: Path) -> str | None:
    """Wait a moment for a request to stop or for the end of the explorer; return which of them happened, or None."""
    if (folder / STOP).exists():
        return "stopped"
    readable, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
    return "ended with the explorer" if readable and not os.read(sys.stdin.fileno(), 1) else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
