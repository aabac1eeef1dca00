"""The token in a real browser: the printed link opens the page, a plain address says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from separatrix.explorer.claims import tab as claims_tab
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
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        assert TOKEN not in cookie["value"]


@pytest.mark.parametrize("query", ["", "?tab=claims", "?token=wrong"])
def test_a_plain_address_says_what_to_do(browser: Any, link: str, query: str) -> None:
    context = browser.new_context(**DESKTOP)
    page = context.new_page()
    answer = page.goto(link.partition("?")[0] + query)
    assert answer.status == 403
    said = page.locator("p").inner_text()
    assert "open the whole address that separatrix explore printed in its terminal, with ?token= in it" in said
    assert page.locator("#panel").count() == 0
    assert context.cookies() == []
    context.close()
