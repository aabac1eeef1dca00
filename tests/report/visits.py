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
]
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}


def absent(why: str) -> None:
    """Skip, or fail where a browser is required."""
    if os.environ.get("SEPARATRIX_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{why}, and SEPARATRIX_REQUIRE_BROWSER=1: `make browser` installs it")
    pytest.skip(f"{why}: `make browser` installs it")


def launched() -> Iterator[Any]:
    """The browser, until it is asked for no more."""
    program = shutil.which("chromium")
    if program is None:
        absent("there is no chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        absent("there is no Playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


class Visit:
    """A page in a window of its own, with all that it asked for and complained of.

    Every claim is opened, and it is read from the top to the end, so that every figure has been near the window and is
    drawn; not with `read` false.
    """

    def __init__(self, browser: Any, address: str, *, read: bool = True, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        if read:
            self.page.evaluate("document.querySelectorAll('article > details').forEach(one => { one.open = true; })")
            for plot in self.page.locator(".plot").all():
                plot.scroll_into_view_if_needed()
                plot.and_(self.page.locator("[data-state=drawn], [data-state=failed]")).wait_for()
            self.page.evaluate("scrollTo(0, 0)")

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, kind: object, *_: object) -> None:
        self.context.close()
        if kind is None:
            assert self.complaints == []
            asked = [url for url in self.requests if not url.startswith(("data:", "blob:"))]
            assert [url.rpartition("/")[2] for url in asked] == ["report.html"], "the page asked for something else"
