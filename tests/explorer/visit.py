"""A visit to the explorer in a browser, with all that the page asked for and complained of."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.report.visits import DESKTOP, PHONE

__all__ = ["DESKTOP", "PHONE", "Visit", "go_to", "state"]


class Visit:
    """A page in a window of its own. At the end it must not have complained, nor asked anyone but its server."""

    def __init__(self, browser: Any, address: str, view: str = "", **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.address = address
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address + view)
        self.page.locator("#panel > *").first.wait_for(state="attached")

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, kind: object, *_: object) -> None:
        self.context.close()
        if kind is None:
            assert self.complaints == []
            asked = [url for url in self.requests if not url.startswith(("data:", "blob:"))]
            assert [url for url in asked if not url.startswith(self.address)] == [], "the page asked someone else"


def state(page: Any) -> dict[str, str]:
    """What the address of a page holds."""
    return dict(parse_qsl(urlsplit(page.evaluate("location.href")).query, keep_blank_values=True))


def go_to(page: Any, view: str) -> None:
    """Give a page another address, as going back to it does: nothing is loaded, and the server reads the address."""
    page.evaluate("view => { history.pushState({}, '', view); dispatchEvent(new PopStateEvent('popstate')); }", view)
