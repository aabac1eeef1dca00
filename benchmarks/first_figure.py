"""How long a reader waits for the first figure of a view of the explorer, in a browser that no other program controls.

A browser that is controlled by another program, such as Playwright, records positions in scripts; for this Chromium
parses all of Plotly two more times, which adds half a second that no reader would wait. So this benchmark starts
chromium without such a program, and the page reports to the server when it was drawn.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

from flask import Response, request

from separatrix.explorer.app import make_app
from separatrix.explorer.precompute import precompute
from separatrix.explorer.server import Endpoint, bound

STARTED = 4
"""Seconds that the browser is given to start, before it visits a view."""
PATIENCE = 60.0

# A figure counts as drawn when it contains marks. A list counts as drawn when it has its first item. An outline counts
# as drawn when a frame that contains it was painted.
_WATCH = """(selector => {
  const painted = new MessageChannel();
  let outlinedAt = null;
  painted.port1.onmessage = () => { outlinedAt = performance.now(); };
  const outlined = () => document.querySelector(selector + ' img.sketch')?.complete
    ? painted.port2.postMessage(0) : requestAnimationFrame(outlined);
  outlined();
  const marks = '.scatterlayer .trace, .heatmaplayer image, .barlayer .trace, .imagelayer image';
  const drawn = () => {
    const found = document.querySelector(selector);
    return found && (found.tagName !== 'FIGURE' || found.querySelector(marks));
  };
  const tell = (drawnAt) => fetch('/told', {method: 'POST', body: JSON.stringify([outlinedAt, drawnAt])});
  const look = () => drawn() ? tell(performance.now()) : requestAnimationFrame(look);
  look();
})"""


class Watched:
    """The explorer on an empty folder of results; its pages report when they were drawn."""

    def __init__(self, folder: Path) -> None:
        app = make_app(folder)
        self.told: Queue[tuple[float | None, float]] = Queue()
        self.address, self.drawn = "", ""
        self.server, self.host = bound(app, Endpoint("127.0.0.1", 0))
        app.server.before_request_funcs[None].insert(0, self._answer)
        app.server.after_request(self._with_watch)

    def _answer(self) -> Response | None:
        if request.path == "/start":
            page = f'<meta http-equiv="refresh" content="{STARTED};url=/{self.address}">'
            return Response(page, mimetype="text/html")
        if request.path == "/watch.js":
            return Response(f"{_WATCH}({json.dumps(self.drawn)})", mimetype="text/javascript")
        if request.path == "/told":
            outlined, drawn = json.loads(request.get_data())
            self.told.put((outlined and outlined / 1000, drawn / 1000))
            return Response("")
        return None

    def _with_watch(self, response: Response) -> Response:
        if request.path == "/":
            page = response.get_data(as_text=True)
            response.set_data(page.replace("<head>", '<head>\n<script src="/watch.js"></script>', 1))
        return response

    def visit(self, program: str, address: str, drawn: str) -> tuple[float | None, float]:
        """The seconds from navigation to the outline of the figure, if there is one, and to the figure."""
        self.address, self.drawn = address, drawn
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                       "--disable-background-networking", "--disable-component-update", "--disable-sync",
                       "--window-size=1280,800", f"--user-data-dir={profile}", f"{self.host}start"]  # fmt: skip
            quiet = subprocess.DEVNULL
            with subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True) as browser:
                try:
                    return self.told.get(timeout=STARTED + PATIENCE)
                finally:
                    os.killpg(browser.pid, signal.SIGKILL)


@contextmanager
def watched() -> Iterator[Watched]:
    """The explorer, after it has computed the figures for which its first visitor would wait."""
    with tempfile.TemporaryDirectory() as folder:
        made = Watched(Path(folder))
        Thread(target=made.server.run, daemon=True).start()
        precompute(Path(folder))
        yield made
