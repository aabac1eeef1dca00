"""A page in a browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",
]
PATIENCE = 900_000
"""Milliseconds that a browser may take for any operation: machines may be slow."""
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
screens = pytest.mark.parametrize(
    ("device", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop-light", "phone-dark"]
)
"""Run a test on both devices and in both colour schemes, which no style depends on jointly."""

READ = """async () => {
  document.querySelectorAll("article > details").forEach((one) => { one.open = true; });
  const ended = (plot) => ["drawn", "failed"].includes(plot.dataset.state);
  for (const plot of document.querySelectorAll(".plot")) {
    plot.scrollIntoView({ block: "nearest" });
    for (const until = Date.now() + 900_000; !ended(plot); ) {
      if (Date.now() > until) throw new Error(`${plot.id} is not drawn`);
      await new Promise((next) => setTimeout(next, 10));
    }
  }
  scrollTo(0, 0);
}"""
"""Open every claim of a report, scroll to one figure after the other and wait for each, in one script in the page."""


def absent(why: str) -> None:
    """Skip, or fail where a browser is required."""
    if os.environ.get("SEPARATRIX_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{why}, and SEPARATRIX_REQUIRE_BROWSER=1: `make browser` installs it")
    pytest.skip(f"{why}: `make browser` installs it")


def launched() -> Iterator[Any]:
    """The browser, until it is no longer needed."""
    program = shutil.which("chromium")
    if program is None:
        absent("there is no chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        absent("there is no Playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=PATIENCE)
        yield Windows(browser)
        browser.close()


class Windows:
    """A browser in which all pages of one kind of window share one renderer process.

    Plotly is compiled once in it, which takes seconds. The process ends with its last page: so a page stays open,
    empty, until the next one is left.
    """

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.contexts: dict[str, Any] = {}

    def new_context(self, **options: Any) -> Any:
        """A browser context that shares no cookies or storage with the others."""
        context = self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        return context

    def open(self, color_scheme: str | None = None, **options: Any) -> Any:
        """A blank page, in a window with these options, without cookies."""
        kind = repr(sorted(options.items()))
        if kind not in self.contexts:
            self.contexts[kind] = self.new_context(**options)
        page = self.contexts[kind].new_page()
        page.emulate_media(color_scheme=color_scheme)
        return page

    def leave(self, page: Any) -> None:
        """Leave a page, and delete all cookies; pages that it opened are closed."""
        context = page.context
        page.evaluate("location.replace('about:blank')")
        page.wait_for_url("about:blank")
        context.clear_cookies()
        for other in context.pages:
            if other is not page:
                other.close()


class Seen:
    """A page in its own window, with all requests and errors."""

    def __init__(self, browser: Windows, address: str, **options: Any) -> None:
        self.browser = browser
        self.page = browser.open(**options)
        self.context = self.page.context
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context.on("request", self._asks)
        self.page.on("console", self._says)
        self.page.on("pageerror", self._fails)
        self.page.goto(address)

    def _asks(self, request: Any) -> None:
        self.requests.append(request.url)

    def _says(self, message: Any) -> None:
        if "was preloaded using link preload but not used within a few seconds" in message.text:
            return  # the machine was busy, and the script is used later
        self.complaints.append(f"{message.type}: {message.text}")

    def _fails(self, error: Any) -> None:
        self.complaints.append(str(error))

    def __enter__(self) -> Any:
        return self.page

    def end(self) -> None:
        """Stop listening to the page, and leave it."""
        self.context.remove_listener("request", self._asks)
        self.page.remove_listener("console", self._says)
        self.page.remove_listener("pageerror", self._fails)
        self.browser.leave(self.page)

    def asked(self) -> list[str]:
        """The addresses that the page requested."""
        return [url for url in self.requests if not url.startswith(("data:", "blob:"))]


class Visit(Seen):
    """Visit a report, and assert that it loads no other file and logs no error.

    Unless `read` is false, every claim is opened, and the page is scrolled from the top to the end, so that every
    figure is drawn.
    """

    def __init__(self, browser: Windows, address: str, *, read: bool = True, **options: Any) -> None:
        super().__init__(browser, address, **options)
        if read:
            self.page.evaluate(READ)

    def __exit__(self, kind: object, *_: object) -> None:
        self.end()
        if kind is None:
            assert self.complaints == []
            assert [url.rpartition("/")[2] for url in self.asked()] == ["report.html"], "the page asked for more"
