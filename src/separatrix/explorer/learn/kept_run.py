"""A run of the page's keeper: ``python -m separatrix.explorer.learn.kept_run WORDS`` is ``separatrix WORDS``.

Its standard input is a pipe from the keeper. When the keeper ends in any way, the pipe ends, and the run stops as after
Ctrl-C: a run that nobody watches could not be stopped from the page.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading

PATIENCE_SECONDS = 20.0
"""From the end of the keeper until the run is ended by force."""


def _stop_with_keeper() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(PATIENCE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_stop_with_keeper, daemon=True).start()
    runpy.run_module("separatrix", run_name="__main__")
