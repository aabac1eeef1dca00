"""Run a training run for the page, and keep its weights: ``python -m separatrix.explorer.learn.keeper FOLDER LOCK``.

The run itself is `separatrix train selection`, a process of its own. The keeper stops it when a file ``stop`` appears
in the folder, or when its own standard input ends, which is when the explorer ends, in whatever way: a run never
outlives the page that shows it, and goes on from its checkpoint when it is asked to. Each checkpoint is copied to
``weights/step-N.safetensors``, and ``end.json`` says how it ended. LOCK is the number of an open file whose lock says
that a run is alive. Nothing here imports torch.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from separatrix.explorer.learn.training_state import COMMAND, END, OUTPUT, STOP, WEIGHTS, step_of

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 20.0
"""From the request to stop until the run is ended by force."""


def main(folder: Path, lock: int) -> None:
    """Run, watch, and say how it ended."""
    told = json.loads((folder / COMMAND).read_text("utf-8"))
    (folder / WEIGHTS).mkdir(exist_ok=True)
    words = [sys.executable, "-m", "separatrix", *told["arguments"], "--folder", str(folder)]
    with (folder / OUTPUT).open("ab") as output:
        # The run holds the lock too: it counts as alive even if its keeper is killed.
        run = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[lock])
    try:
        asked = watched(run, folder, folder / f"seed-{told['seed']}.safetensors")
    except BaseException:  # a run that nobody watches would go on with nobody to stop it
        run.kill()
        run.wait()
        raise
    code = run.wait()
    how = asked or ("finished" if code == 0 else "failed")
    written = folder / f"{END}.partial"
    written.write_text(json.dumps({"how": how, "code": code}), "utf-8")
    written.replace(folder / END)


def watched(run: subprocess.Popen[bytes], folder: Path, checkpoint: Path) -> str | None:
    """Copy checkpoints until the run ends; the answer is who asked it to, if anyone did."""
    asked: str | None = None
    deadline = float("inf")
    seen: tuple[int, int] | None = None
    while True:
        ended = run.poll() is not None
        seen = copied(checkpoint, folder / WEIGHTS, seen)
        if ended:
            return asked
        if asked is None:
            asked = _asked(folder)
            if asked:
                run.send_signal(signal.SIGINT)  # it writes down what it has, and ends
                deadline = time.monotonic() + PATIENCE_SECONDS
        else:
            time.sleep(POLL_SECONDS)
        if time.monotonic() > deadline:
            run.kill()


def _asked(folder: Path) -> str | None:
    """Whether someone stopped the run, or the explorer ended; it waits a moment for either."""
    if (folder / STOP).exists():
        return "stopped"
    readable, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
    return "ended with the explorer" if readable and not os.read(sys.stdin.fileno(), 1) else None


def copied(checkpoint: Path, folder: Path, seen: tuple[int, int] | None) -> tuple[int, int] | None:
    """Copy the checkpoint if it is not the one seen before; checkpoints are renamed into place, so it is whole."""
    try:
        with checkpoint.open("rb") as file:
            about = os.fstat(file.fileno())
            found = about.st_ino, about.st_mtime_ns
            if found == seen:
                return seen
            data = file.read()
    except FileNotFoundError:
        return seen
    written = folder / "copy.partial"
    written.write_bytes(data)
    written.replace(folder / f"step-{step_of(data)}.safetensors")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
