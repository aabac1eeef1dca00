"""The token in a real browser: the printed link opens the page, a plain address shows what to do."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from separatrix.explorer.claims import tab as claims_tab
from separatrix.explorer.private_link import private_link
from separatrix.explorer.separate import tab as separate_tab
from tests.explorer.visit import DESKTOP, Visit

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def link(browser: Any, serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    pages = {"separate": separate_tab, "claims": claims_tab}
    return serve(tmp_path_factory.mktemp("results"), TOKEN, pages=pages)


def test_the_printed_link_opens_the_page_and_a_cookie_keeps_it_open(browser: Any, link: str) -> None:
    plain, _, query = link.partition("?")
    assert query == f"token={TOKEN}"
    visit = Visit(browser, plain, f"?{query}&tab=claims", **DESKTOP)
    with visit as page:
        page.locator(".claims input").first.wait_for(state="attached")
        assert TOKEN not in page.url
        assert "tab=claims" in page.url
        page.goto(f"{plain}?tab=separate")
        page.locator("#separate-numbers table").wait_for()
        [cookie] = visit.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert TOKEN not in cookie["value"]


def test_a_link_of_another_site_enters_with_the_token_alone(browser: Any, link: str) -> None:
    """The file that `separatrix explore` opens in a browser is such a link."""
    context = browser.new_context(**DESKTOP)
    page = context.new_page()
    with private_link(link) as file:
        page.goto(file)
        page.locator("#separate-numbers table").wait_for()
    assert TOKEN not in page.url
    context.close()


class Thief(BaseHTTPRequestHandler):
    """A foreign server at another port of this machine, which records the cookies that it receives."""

    cookies: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_cookie_that_another_port_is_sent_opens_nothing(browser: Any, link: str) -> None:
    server = HTTPServer(("127.0.0.1", 0), Thief)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        context = browser.new_context(**DESKTOP)
        page = context.new_page()
        page.goto(link)
        page.locator("#separate-numbers table").wait_for()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        context.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    stolen = next(cookie for cookie in Thief.cookies if cookie)
    for path in ("_dash-layout", "_dash-dependencies"):
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(link.partition("?")[0] + path, headers={"Cookie": stolen}))


@pytest.mark.parametrize("query", ["", "?tab=claims", "?token=wrong"])
def test_a_plain_address_says_what_to_do(browser: Any, link: str, query: str) -> None:
    context = browser.new_context(**DESKTOP)
    page = context.new_page()
    answer = page.goto(link.partition("?")[0] + query)
    assert answer.status == 403
    said = page.locator("body").inner_text()
    assert "open the whole address that separatrix explore printed in its terminal, with ?token= in it" in said
    assert "add &token= and the token to the end of the address" in said
    assert page.locator("#panel").count() == 0
    assert context.cookies() == []
    context.close()
