"""The explorer in a browser: how long a reader waits for the first figure of each tab, and for a change to be drawn.

`separatrix explore` runs as its own process, and chromium visits it, driven by Playwright. The page itself takes the
time: from its navigation until the figure is there in outline and until Plotly has drawn it, and from a key on a
control until Plotly has drawn it anew.
Every visit begins with an empty cache. A note has what the server's process spent on the visit, and what it sent, which
are telling on a busy machine too.
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

FIRST, CHANGE = 1.5, 0.3
"""Seconds that a reader may wait for the first figure, and for a change."""
ROUNDS = 3
WARMING = 20.0
"""The longest time, in seconds, that the server takes at its start to compute what the first visitor would wait for."""


@dataclass(frozen=True)
class View:
    """A view of the explorer: its address, what is drawn there, and the control that a key changes, if any."""

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

# A figure is drawn when it has marks in it. Of a list the first item is enough. An outline is there when a frame that
# has it was painted.
_WATCH = """selector => {
  const painted = new MessageChannel();
  painted.port1.onmessage = () => { window.outlinedAt = performance.now(); };
  const outlined = () => document.querySelector(selector + ' img.sketch')?.complete
    ? painted.port2.postMessage(0) : requestAnimationFrame(outlined);
  outlined();
  const marks = '.scatterlayer .trace, .heatmaplayer image, .barlayer .trace, .imagelayer image';
  const drawn = () => {
    const found = document.querySelector(selector);
    return found && (found.tagName !== 'FIGURE' || found.querySelector(marks));
  };
  const look = () => drawn() ? (window.drawnAt ??= performance.now()) : requestAnimationFrame(look);
  look();
}"""
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
        """Wait until the process has nothing to do for a second, as after it has computed the first figures."""
        deadline = time.monotonic() + WARMING
        before = -1.0
        while (now := self.spent()) > before + 0.03 and time.monotonic() < deadline:
            before = now
            time.sleep(1)


@contextmanager
def serving() -> Iterator[Server]:
    """The explorer over an empty folder of results, until it is asked for no more."""
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
class Visit:
    """Seconds to the outline and to the first figure, and for a change; the server's processor time; the bytes sent."""

    outline: float | None
    first: float
    change: float | None
    spent: tuple[float, float]
    sent: tuple[int, int]


def visit(browser: Any, server: Server, view: View) -> Visit:
    """Visit a view with an empty cache, and change its control by a key."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.add_init_script(f"({_WATCH})({view.drawn!r})")
    before = server.spent()
    page.goto(server.address + view.address)
    page.wait_for_function("() => window.drawnAt !== undefined")
    outline, first = (at and at / 1000 for at in page.evaluate("() => [window.outlinedAt, window.drawnAt]"))
    page.wait_for_load_state("networkidle")
    opened, sent = server.spent(), sum(sizes)
    change = None
    if view.control is not None:
        control = page.get_by_role(view.role, name=view.control, exact=True).first
        control.focus() if view.role == "slider" else control.select_text()
        page.evaluate(_CHANGE, view.drawn)
        control.press(view.key)
        change = page.evaluate("() => window.changed") / 1000
        page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)  # what is still being computed belongs to this visit
    context.close()
    return Visit(outline, first, change, (opened - before, server.spent() - opened), (sent, sum(sizes) - sent))


def rows() -> list[Row]:
    """Outline, first figure and a change of each view against what a reader may wait: the best of several visits."""
    program = shutil.which("chromium")
    if program is None:
        return []
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return []
    found: list[Row] = []
    with serving() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        server.settle()
        for view in VIEWS:
            visits = [visit(browser, server, view) for _ in range(ROUNDS)]
            best = min(visits, key=lambda one: one.first)
            outlines = [one.outline for one in visits if one.outline is not None]
            if outlines:
                found.append(Row(f"{view.name}: outline", min(outlines), "a reader's patience", FIRST, 1.0))
            told = f"at the first visit {visits[0].first:.2g} s; {_server(best, 0)}"
            found.append(Row(f"{view.name}: first figure", best.first, "a reader's patience", FIRST, 1.0, note=told))
            changes = [one for one in visits if one.change is not None]
            if changes:
                best = min(changes, key=lambda one: one.change or 0.0)
                name = f"{view.name}: a change"
                found.append(Row(name, best.change or 0.0, "a reader's patience", CHANGE, 1.0, note=_server(best, 1)))
        browser.close()
    return found


def _server(one: Visit, which: int) -> str:
    return f"the server spent {one.spent[which] * 1000:.0f} ms and sent {one.sent[which] / 1000:,.0f} kB"
