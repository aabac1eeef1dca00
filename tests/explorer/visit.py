"""A visit to the explorer in a browser, with all requests and errors of the page."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.report.visits import DESKTOP, PHONE, Seen, Windows, screens

__all__ = ["DESKTOP", "PHONE", "Visit", "go_to", "screens", "state", "wait_for_state"]


class Visit(Seen):
    """A visit to the explorer: no errors, and requests to its own server only."""

    def __init__(self, browser: Windows, address: str, view: str = "", **options: Any) -> None:
        super().__init__(browser, address + view, **options)
        self.address = address
        self.page.locator("#panel > *").first.wait_for(state="attached")

    def __exit__(self, kind: object, *_: object) -> None:
        self.end()
        if kind is None:
            assert self.complaints == []
            assert [url for url in self.asked() if not url.startswith(self.address)] == [], "it asked someone else"


def state(page: Any) -> dict[str, str]:
    """The values in the address of a page."""
    return dict(parse_qsl(urlsplit(page.evaluate("location.href")).query, keep_blank_values=True))


def wait_for_state(page: Any, **expected: str) -> None:
    """Wait until the address of a page has these values: it may change after the figures do."""
    page.wait_for_function(
        """expected => {
            const values = new URLSearchParams(location.search);
            return Object.entries(expected).every(([name, value]) => values.get(name) === value);
        }""",
        arg=expected,
    )


def go_to(page: Any, view: str) -> None:
    """Give a page another address, as the back button does: nothing is loaded, and the server reads the address."""
    page.evaluate("view => { history.pushState({}, '', view); dispatchEvent(new PopStateEvent('popstate')); }", view)
