"""The tab Claims in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.explorer.claims import tab as claims_tab
from tests.explorer.bad_values import bad_values
from tests.explorer.shelved import SHELVED, declared, filled
from tests.explorer.visit import DESKTOP, Visit, go_to, screens, state, wait_for_state


@pytest.fixture(scope="module")
def address(browser, serve, tmp_path_factory: pytest.TempPathFactory):
    with declared():
        yield serve(filled(tmp_path_factory.mktemp("claims") / "results"), pages={"claims": claims_tab})


def listed(page: Any) -> list[str]:
    return page.locator(".claims input").evaluate_all("all => all.map(one => one.value)")


@screens
def test_a_claim_is_found_opened_and_kept_in_the_address(browser, address: str, device: dict, scheme: str) -> None:
    with Visit(browser, address, **device, color_scheme=scheme) as page:
        page.locator(".claims input").first.wait_for(state="attached")
        assert listed(page) == list(SHELVED)
        page.get_by_role("textbox", name="Text").fill("counted")
        page.locator(".claims input").nth(1).wait_for(state="detached")
        assert listed(page) == ["kronecker/lemma-2"]
        page.locator(".claims label").click()
        page.locator("article figure .scatterlayer .trace").wait_for(state="attached")
        assert "It was counted twice." in page.locator("article").text_content()
        assert page.evaluate("document.documentElement.scrollWidth") == device["viewport"]["width"]
        page.wait_for_function("() => location.search.includes('claim=kronecker')")
        assert state(page) == {
            "tab": "claims",
            "paper": "all",
            "verdict": "all",
            "text": "counted",
            "claim": "kronecker/lemma-2",
        }
        page.reload()
        page.locator("article").wait_for()
        assert page.locator("article h2").text_content().startswith("Lemma 2")


def test_the_text_of_a_claim_is_not_markup(browser, address: str) -> None:
    with Visit(browser, address, "?tab=claims&claim=separation/theorem-1", **DESKTOP) as page:
        page.locator("article").wait_for()
        assert "<img src=x" in page.locator(".statement").text_content()
        assert page.locator("article img").count() == 0


def test_formulas_are_typeset(browser, address: str) -> None:
    """Formulas are elements that the browser typesets: a fraction is higher than a letter, an accent above its base."""
    with Visit(browser, address, "?tab=claims&claim=kronecker/lemma-2", **DESKTOP) as page:
        page.locator("article math").nth(1).wait_for(state="attached")
        kinds = page.locator("article math *").evaluate_all("all => all.map(one => one.namespaceURI)")
        assert set(kinds) == {"http://www.w3.org/1998/Math/MathML"}
        high, low = (page.locator(f"article .statement {one}").first.bounding_box() for one in ("mfrac", "mi"))
        assert high["height"] > 1.5 * low["height"]
        assert page.locator("article math").nth(1).text_content() == "n~<2n"
        assert page.locator(".claims small math").count() == 1
        assert "$" not in page.locator("main").text_content()


def test_the_filter_by_paper_and_verdict_by_keyboard(browser, address: str) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        page.locator(".claims input").nth(2).wait_for(state="attached")
        page.locator("input[value=all]").first.focus()
        page.keyboard.press("ArrowDown")  # from all papers to the first
        page.locator(".claims input").nth(1).wait_for(state="detached")
        assert listed(page) == ["separation/theorem-1"]
        page.locator("input[value=undecided]").click()
        page.get_by_text("No claim matches.").wait_for()
        wait_for_state(page, verdict="undecided")


def test_a_bad_value_in_the_address_is_reported(browser, address: str) -> None:
    """A bad value of each field is reported: the first in the address, the others in turn on the same page."""
    assert [one.name for one in claims_tab.FIELDS] == ["paper", "verdict", "text", "claim"]
    bad_ones = {one: dict.fromkeys((bad_values(one)[0], bad_values(one)[-1])) for one in claims_tab.FIELDS}
    first, *others = [(one, bad) for one, some in bad_ones.items() for bad in some]
    with Visit(browser, address, f"?tab=claims&{first[0].name}={first[1]}", **DESKTOP) as page:
        for one, bad in (first, *others):
            if (one, bad) != first:
                go_to(page, f"?tab=claims&{one.name}={bad}")
            got = f"got {bad!r}" if one.choices else f"got {len(bad)} of them"
            page.locator(".alert.address", has_text=f"{one.name}: expected").filter(has_text=got).wait_for()
            page.locator(".claims input").first.wait_for(state="attached")
            assert listed(page) == list(SHELVED)


def test_an_unknown_claim_is_reported(browser, address: str) -> None:
    with Visit(browser, address, "?tab=claims&claim=nothing/here", **DESKTOP) as page:
        page.get_by_text("claim: expected the id of a claim in the list, got 'nothing/here'.").wait_for()
