"""The child process of a supervisor: ``python -m separatrix.explorer.learn.supervised_run WORDS`` runs ``separatrix
WORDS``. Its standard input is a pipe from the supervisor. When the supervisor ends for any reason, the pipe is closed,
and the run stops as after Ctrl-C: without a supervisor it could not be stopped from the page.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading

PATIENCE_SECONDS = 20.0
"""The seconds between the end of the supervisor and killing the run."""


def _stop_with_supervisor() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(PATIENCE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_stop_with_supervisor, daemon=True).start()
    runpy.run_module("separatrix", run_name="__main__")
