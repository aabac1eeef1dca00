"""The explorer in a browser: how long a reader waits for the first figure of each tab, and for a change to be drawn.

The page itself measures the times: from navigation until the outline of the figure is painted and until Plotly has
drawn the figure (see `first_figure`), and from a key press on a control until Plotly has redrawn it. For changes
`separatrix explore` runs as its own process, and chromium visits it, driven by Playwright; a note has the CPU time of
the server's process for the change and the bytes it sent, which are reliable on a busy machine too. Every visit begins
with an empty cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks import Row
from benchmarks.first_figure import watched

FIRST, CHANGE = 1.5, 0.3
"""Seconds that a reader may wait for the first figure, and for a change."""
ROUNDS = 3
WARMING = 20.0
"""The longest time, in seconds, that the server takes at its start to compute what the first visitor would wait for."""


@dataclass(frozen=True)
class View:
    """A view of the explorer: its address, the element that is drawn, and the control that a key changes, if any."""

    name: str
    address: str
    drawn: str
    control: str | None = None
    role: str = "slider"
    key: str = "ArrowLeft"


VIEWS = (
    View("Separate", "?tab=separate", "figure[data-name=separation-along]", "a₁"),
    View(
        "Separate, the curve near n = 10^100",
        "?tab=separate&n=1e100&d=102&m=231&along=n",
        "figure[data-name=separation-along]",
        "a₁",
    ),
    View("Separate, a map of n and d", "?tab=separate&along=n&across=d", "figure[data-name=separation-along]", "m"),
    View("Compute", "?tab=compute", "figure[data-name=phase]", "B"),
    View("Attend", "?tab=attend", "figure[data-name=attend]", "query", "textbox", "7"),
    View("Learn", "?tab=learn", "figure[data-name=dynamics]", "T"),
    View("Learn, a map of T and η", "?tab=learn&along=T&across=eta", "figure[data-name=loss-along]", "T"),
    View("Claims, the list", "?tab=claims", ".claims .item"),
)

_CHANGE = """selector => {
  const plot = document.querySelector(selector + ' .js-plotly-plot');
  const before = plot.data;  // another list for every figure that comes from the server
  window.changed = new Promise((resolve, reject) => {
    let began = null;
    addEventListener('keydown', () => { began ??= performance.now(); }, {capture: true, once: true});
    plot.on('plotly_afterplot', () => {
      if (began !== null && plot.data !== before) resolve(performance.now() - began);
    });
    setTimeout(() => reject(new Error(`${selector} was not drawn anew within a minute`)), 60000);
  });
}"""


@dataclass
class Server:
    """The explorer's process."""

    address: str
    process: subprocess.Popen[str]

    def spent(self) -> float:
        """The processor time, in seconds, that the process has spent so far."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self) -> None:
        """Wait until the process has been idle for a second, for example after it has computed the first figures."""
        deadline = time.monotonic() + WARMING
        before = -1.0
        while (now := self.spent()) > before + 0.03 and time.monotonic() < deadline:
            before = now
            time.sleep(1)


@contextmanager
def serving() -> Iterator[Server]:
    """Run the explorer on an empty folder of results while the context is open."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-u", "-m", "separatrix", "explore", "--port", "0", "--no-token", "--store", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("The explorer: ").strip()
            try:
                yield Server(address, process)
            finally:
                process.terminate()


@dataclass(frozen=True)
class Change:
    """The seconds that a change takes, the server's processor time for it, and the bytes that it sends."""

    seconds: float
    spent: float
    sent: int


def change(browser: Any, server: Server, view: View) -> Change:
    """Visit a view with an empty cache, and change its control by a key."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(server.address + view.address)
    page.locator(f"{view.drawn} .main-svg").first.wait_for()
    page.wait_for_load_state("networkidle")
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    before = server.spent()
    control = page.get_by_role(view.role, name=view.control, exact=True).first
    control.focus() if view.role == "slider" else control.select_text()
    page.evaluate(_CHANGE, view.drawn)
    control.press(view.key)
    seconds = page.evaluate("() => window.changed") / 1000
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)  # the CPU time of background work that is still running counts for this change
    context.close()
    return Change(seconds, server.spent() - before, sum(sizes))


def rows() -> list[Row]:
    """Best times of outline, first figure and a change of each view over several visits, against their targets."""
    program = shutil.which("chromium")
    return [] if program is None else [*_firsts(program), *_changes(program)]


def _firsts(program: str) -> Iterator[Row]:
    with watched() as explorer:
        for view in VIEWS:
            visits = [explorer.visit(program, view.address, view.drawn) for _ in range(ROUNDS)]
            outlines = [outlined for outlined, _ in visits if outlined is not None]
            if outlines:
                yield Row(f"{view.name}: outline", min(outlines), "a reader's patience", FIRST, 1.0)
            seconds = [drawn for _, drawn in visits]
            told = f"at the first visit {seconds[0]:.2g} s"
            yield Row(f"{view.name}: first figure", min(seconds), "a reader's patience", FIRST, 1.0, note=told)


def _changes(program: str) -> Iterator[Row]:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return
    with serving() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        server.settle()
        for view in (view for view in VIEWS if view.control is not None):
            best = min((change(browser, server, view) for _ in range(ROUNDS)), key=lambda one: one.seconds)
            told = f"the server spent {best.spent * 1000:.0f} ms and sent {best.sent / 1000:,.0f} kB"
            yield Row(f"{view.name}: a change", best.seconds, "a reader's patience", CHANGE, 1.0, note=told)
        browser.close()
