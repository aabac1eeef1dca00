"""`make screenshots`: screenshots of the explorer, the report and the documents, for a person to look at.

Screenshots of every page at two widths, in light and dark mode, at one and two device pixels per CSS pixel. Pages that
are wider than their window are named. `python -m tests.screenshots --only learn` takes the pages whose names contain a
word.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

from separatrix.explorer.app import make_app
from separatrix.explorer.server import Endpoint, bound
from separatrix.explorer.tabs import NAMES
from separatrix.lab.store import has_store
from separatrix.report.highlights import HIGHLIGHTS
from tests.docs.pages import DOCS, ROOT
from tests.report.visits import launched

WIDTHS = {"desktop": 1440, "phone": 390}
SCHEMES = ("light", "dark")
SCALES = (1, 2)
TALLEST = 6000
"""The largest number of CSS pixels of a page in a screenshot, from the top."""
PATIENCE = 600_000
"""The largest number of milliseconds that a page may take."""
VIEWS = {
    **{name: f"?tab={name}" for name in NAMES},
    "separate-compare": "?tab=separate&across=d&a1.2=0.7",
    "compute-compare": "?tab=compute&k.2=2",
    "claims-open": "?tab=claims&claim=selection/corollary-3.6",
}
"""Views of the explorer: every tab, comparisons of two settings, and an open claim."""
READY = """() => (!document.querySelector("#react-entry-point") || document.querySelector("#panel .results"))
  && !document.querySelector("[data-dash-is-loading=true]")
  && [...document.querySelectorAll(".slide")].every((slide) => slide.querySelector("[role=slider]"))
  && [...document.querySelectorAll(".results .plot")].every((plot) => plot.closest("[hidden]")
  || plot.querySelector(".main-svg"))"""
"""Whether the page is loaded, in the explorer including its tab, its sliders and its figures, which load later."""
DOCUMENTS = (
    "index",
    "start",
    "guide/is-it-for-me",
    "guide/evidence",
    "errata",
    "papers/kronecker",
    "api/attention",
    "gallery",
)


@dataclass(frozen=True)
class Page:
    """A page: its name in the file names, its address, and a script that prepares it."""

    name: str
    address: str
    script: str = ""


@contextmanager
def explorer(store: Path) -> Iterator[str]:
    """Serve the explorer to this machine without a token; yield the address."""
    server, address = bound(make_app(store), Endpoint("127.0.0.1", 0))
    Thread(target=server.run, daemon=True).start()
    yield address
    server.close()


def results(store: Path, folder: Path) -> Path:
    """The folder of results or, if there is none, a folder with the results of the report's highlights."""
    if has_store(store):
        return store
    command = [sys.executable, "-m", "separatrix", "reproduce", "--store", str(folder)]
    for highlight in HIGHLIGHTS:
        command += ["--only", highlight.claim]
    subprocess.run(command, check=True)
    return folder


def pages(address: str, report: Path, built: Path) -> list[Page]:
    """All pages."""
    # The claims begin below the part of the page that a screenshot shows: the content above them is removed.
    opened = (
        "document.querySelectorAll('#findings, #summary').forEach((section) => section.remove());"
        "document.querySelectorAll('article > details').forEach((details, i) => { details.open = i < 12; })"
    )
    shown = [Page(name, address + view) for name, view in VIEWS.items()]
    shown += [Page("report", report.as_uri()), Page("report-claims", report.as_uri(), opened)]
    for name in DOCUMENTS:
        shown.append(Page(f"docs-{name.replace('/', '-')}", (built / f"{name}.html").as_uri()))
    return shown


def take(browser: Any, page: Page, out: Path, width: str, scheme: str, scale: int) -> None:
    """Take one screenshot, and print a message if the page is wider than the window."""
    viewport = {"width": WIDTHS[width], "height": 900}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, device_scale_factor=scale)
    window = context.new_page()
    window.set_default_timeout(PATIENCE)
    window.goto(page.address)
    if page.script:
        window.evaluate(page.script)
    window.wait_for_load_state("networkidle")
    window.wait_for_function(READY)
    height = 0
    while height < (needed := min(int(window.evaluate("document.documentElement.scrollHeight")), TALLEST)):
        height = needed
        window.set_viewport_size({**viewport, "height": height})  # figures are drawn when they come into the window
        window.wait_for_timeout(1500)
        window.wait_for_load_state("networkidle")
        window.wait_for_function(READY)
    name = f"{page.name}-{width}-{scheme}-{scale}x"
    window.screenshot(path=out / f"{name}.png")
    wide = window.evaluate("document.documentElement.scrollWidth")
    print(name, f"is {wide} pixels wide" if wide > WIDTHS[width] else "", flush=True)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=ROOT / "results", help="a folder of results")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screenshots", help="where the pictures go")
    parser.add_argument("--docs", type=Path, default=DOCS / "_build" / "html", help="the documents as built")
    parser.add_argument("--only", default="", help="only pages with this text in their names")
    parser.add_argument("--scale", type=int, choices=SCALES, help="one number of device pixels alone")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    store = results(given.store, given.out / "results")
    subprocess.run([sys.executable, "-m", "separatrix", "report", "--store", str(store)], check=True)
    scales = SCALES if given.scale is None else (given.scale,)
    with explorer(store) as address:
        shown = pages(address, store.absolute() / "report.html", given.docs.absolute())
        for browser in launched():
            for page, *kind in product(shown, WIDTHS, SCHEMES, scales):
                if given.only in page.name:
                    take(browser, page, given.out, *kind)
    print(f"The pictures: {given.out}")


if __name__ == "__main__":
    main()
