"""The page in a real browser: Debian's chromium, driven by Playwright.

Without chromium these tests are skipped, unless SEPARATRIX_REQUIRE_BROWSER=1, which makes them fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.report.standin import HOSTILE, written
from tests.report.visits import DESKTOP, PHONE, Visit, screens

PLOTS = 5
INK = {"light": "rgb(27, 31, 36)", "dark": "rgb(228, 231, 235)"}


@pytest.fixture(scope="module")
def address(browser, standins, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("browser") / "results").as_uri()


def shown(page: Any) -> list[str]:
    """The visible claims."""
    return page.locator("article:visible summary h3").all_text_contents()


def opened(page: Any) -> list[str]:
    """The open claims."""
    return page.locator("article:has(> details[open])").evaluate_all("all => all.map(one => one.id)")


def inks(page: Any, first: str = "") -> set[str]:
    """The colours of the tick labels of the figures, read immediately after `first`."""
    numbers = "[...document.querySelectorAll('.plot .xtick text')].map(one => getComputedStyle(one).fill)"
    return set(page.evaluate(f"() => {{ {first}; return {numbers}; }}"))


@screens
def test_every_figure_is_drawn_in_the_readers_colours(browser, address: str, device: dict, scheme: str) -> None:
    with Visit(browser, address, **device, color_scheme=scheme) as page:
        assert page.locator(".plot[data-state=drawn]").count() == page.locator(".plot").count() == PLOTS
        marks = page.evaluate(
            "[...document.querySelectorAll('.plot')].map(plot => plot.querySelectorAll("
            "'.scatterlayer .point, .heatmaplayer image, .barlayer .point').length)"
        )
        assert marks == [5, 5, 5, 1, 24]
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert ink == INK[scheme]
        assert inks(page) == {ink}


def test_a_figure_is_drawn_when_the_reader_comes_near(browser, address: str) -> None:
    with Visit(browser, address, read=False, viewport={"width": 1280, "height": 400}) as page:
        page.locator(".highlight .plot[data-state=drawn]").wait_for()
        page.wait_for_timeout(300)
        assert page.locator(".plot[data-state]").count() == 1, "a claim that is folded has its figures drawn"
        page.get_by_role("link", name="Theorem 3: holds asymptotically").click()
        page.locator("[id='kronecker/theorem-3'] .opened").wait_for()
        assert opened(page) == ["kronecker/theorem-3"]
        bars = page.locator(".plot").nth(4)
        height = page.evaluate("document.documentElement.scrollHeight")
        bars.scroll_into_view_if_needed()
        bars.and_(page.locator("[data-state=drawn]")).wait_for()
        assert page.locator(".plot").nth(1).get_attribute("data-state") is None
        assert abs(page.evaluate("document.documentElement.scrollHeight") - height) <= 4, "the page moved"
        # The printed page has the figures of all open claims, also those never scrolled to, and no others.
        assert page.evaluate("() => { dispatchEvent(new Event('beforeprint')); return "
                             "[...document.querySelectorAll('.plot')].map(one => one.dataset.colours ?? ''); }"
                             ) == ["paper", "", "", "paper", "paper"]  # fmt: skip
        page.locator(".plot[data-state=begun]").last.wait_for(state="detached")
        assert page.locator(".plot .main-svg .xtick").count() > 0


def test_the_first_picture_needs_no_script(browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False, **DESKTOP)
    page = context.new_page()
    page.goto(address)
    assert page.locator(".highlight .sketch path").count() == 4  # a curve with its points, another curve, the frame
    box = page.locator(".highlight .sketch").bounding_box()
    assert 0 < box["y"] < box["y"] + box["height"] < 800
    context.close()


def test_the_address_has_the_filter_and_the_open_claims(browser, address: str) -> None:
    with Visit(browser, address, read=False, **DESKTOP) as page:
        page.get_by_role("radio", name="holds 2", exact=True).check()
        page.get_by_label("Text").fill("theorem 8")
        page.locator("[id='selection/theorem-8'] summary").first.click()
        page.wait_for_function("() => location.hash.includes('open')")
        shared = page.url
        assert page.evaluate("location.hash") == "#verdict=holds&text=theorem+8&open=selection/theorem-8"
        page.get_by_role("button", name="Clear").click()
        assert page.evaluate("location.hash") == "#open=selection/theorem-8"
        page.locator("[id='selection/theorem-8'] summary").first.click()
        page.wait_for_function("() => location.hash === ''")
    with Visit(browser, shared, read=False, **PHONE) as page:
        assert shown(page) == ["Theorem 8"]
        assert opened(page) == ["selection/theorem-8"]
        assert page.get_by_role("radio", name="holds 2", exact=True).is_checked()
        assert page.locator("#map .tile:not(.out)").count() == 1
        # A link to a claim shows it although the filter hides it.
        page.evaluate("location.hash = '#kronecker/lemma-2'")
        page.locator("[id='kronecker/lemma-2'] .opened").wait_for()
        assert len(shown(page)) == 8
        page.go_back()
        page.wait_for_function("() => document.querySelectorAll('article:not([hidden])').length === 1")
        assert opened(page) == ["selection/theorem-8"]
    with Visit(browser, f"{address}#verdict=nothing&paper=none&open=nowhere", read=False, **DESKTOP) as page:
        assert len(shown(page)) == 8
        assert opened(page) == []


FOLLOWED = """(width) => {
  const all = (what, value) => [...document.querySelectorAll(what)].map(value);
  const plots = all(".plot .main-svg", (one) => one.clientWidth);
  const wide = all("figure > .wide", (one) => one.getAttribute("tabindex"));
  // The last figure has two parts, and is wider than a phone.
  const last = plots.at(-1) >= 440 && wide.at(-1) === "0" && wide[0] === null;
  return document.documentElement.scrollWidth === width
    && Math.max(...all("figure, figure > .wide", (one) => one.getBoundingClientRect().right)) <= width
    && Math.min(...plots) >= 0.8 * Math.min(width, 880)
    && (width <= 640 ? last : Math.max(...plots) <= width);
}"""
"""Whether nothing exceeds a window of this width, and figures have the full width."""


def test_nothing_overflows_at_any_width(browser, address: str) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        for width in (1280, 768, 360, 320, 640):
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_function(FOLLOWED, arg=width)  # Plotly waits a little before it resizes


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_claims_are_filtered_by_verdict_paper_and_text(browser, address: str, device: dict) -> None:
    with Visit(browser, address, **device) as page:
        everything = shown(page)
        assert len(everything) == 8
        assert page.locator("#shown").inner_text() == "8 claims"
        page.get_by_role("radio", name="holds 2", exact=True).check()
        assert shown(page) == ["Lemma 1", "Theorem 8"]
        page.get_by_label("Paper").select_option("selection")
        assert shown(page) == ["Theorem 8"]
        assert page.locator("#shown").inner_text() == "1 of 8 claims"
        page.get_by_role("radio", name="all 8").check()
        assert shown(page) == ["Theorem 6", "Theorem 7", "Theorem 8"]
        page.get_by_label("Text").fill("7 THEOREM")
        assert shown(page) == ["Theorem 7"]
        page.get_by_label("Text").fill("nowhere")
        assert shown(page) == []
        assert page.get_by_text("No claim matches.").is_visible()
        page.get_by_role("button", name="Clear").click()
        page.locator("#shown", has_text="8 claims").and_(page.locator(":not(:has-text('of'))")).wait_for()
        assert shown(page) == everything
        page.get_by_label("Text").fill("lemma-2")
        assert shown(page) == ["Lemma 2"]
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("radio", name="not as recorded 1").check()
        assert shown(page) == ["Theorem 5"]


def test_the_map_leads_to_the_claims(browser, address: str) -> None:
    for device in (DESKTOP, PHONE):
        with Visit(browser, address, read=False, **device) as page:
            assert not page.locator("[id='kronecker/theorem-3'] .opened").is_visible()
            page.locator("#map").get_by_role("link", name="Theorem 3: holds asymptotically").click()
            page.wait_for_function("() => location.hash === '#open=kronecker/theorem-3'")
            assert page.locator("[id='kronecker/theorem-3'] .opened").is_visible()
            page.locator("#kronecker").get_by_role("link", name="2 errata").click()
            page.wait_for_function("() => location.hash === '#errata'")
            page.locator("#errata summary").first.click()
            assert page.locator("#errata .erratum").first.is_visible()


def test_the_keyboard_reaches_everything(browser, address: str) -> None:
    with Visit(browser, address, read=False, **DESKTOP) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the verdicts"
        assert page.locator(".skip").bounding_box()["x"] >= 0
        page.keyboard.press("Enter")
        for _ in range(3):  # skip the verdict that differs from the recorded one, and its fold
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.value + document.activeElement.name") == "verdict"
        page.keyboard.press("ArrowRight")
        assert shown(page) == ["Lemma 1", "Theorem 8"]
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == "paper"
        page.keyboard.press("Tab")
        page.keyboard.type("lemma")
        assert shown(page) == ["Lemma 1"]
        for _ in range(3):  # skip the button, and the paper's name on the map
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.hash.includes('open=kronecker/lemma-1')")
        unreachable = page.evaluate(
            "[...document.querySelectorAll('a, summary, input, select, button, pre')]"
            ".filter(element => element.tabIndex < 0).map(element => element.outerHTML)"
        )
        assert unreachable == []


def test_the_colours_follow_the_reader_and_the_printer(browser, address: str) -> None:
    with Visit(browser, address, **DESKTOP, color_scheme="light") as page:
        assert inks(page) == {INK["light"]}
        page.emulate_media(color_scheme="dark")
        page.locator(".plot[data-colours=light]").last.wait_for(state="detached")
        assert inks(page) == {INK["dark"]}
        # The browser prints when the event handler returns, so figures must be drawn before.
        assert inks(page, "dispatchEvent(new Event('beforeprint'))") == {"rgb(0, 0, 0)"}
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.locator("nav").is_visible()
        page.emulate_media(media="screen", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert inks(page) == {INK["dark"]}


def test_it_prints(browser, address: str) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        paper = page.pdf(format="A4")
        assert paper.startswith(b"%PDF")
        assert len(paper) > 20_000


def test_the_data_of_a_figure_can_be_saved(browser, address: str, tmp_path: Path) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        with page.expect_download() as waiting:
            page.get_by_role("button", name="The data (CSV)").first.click()
        assert waiting.value.suggested_filename == "kronecker-lemma-1-lines.csv"
        waiting.value.save_as(tmp_path / "saved.csv")
    lines = (tmp_path / "saved.csv").read_text("utf-8").split("\n")[:-1]
    assert (len(lines), lines[1]) == (6, "0,1.0")


def test_the_cells_are_listed_when_someone_looks(browser, address: str) -> None:
    with Visit(browser, f"{address}#kronecker/lemma-1", read=False, **DESKTOP) as page:
        listed = page.locator("[id='kronecker/lemma-1'] pre.cells")
        page.get_by_text("5 cells of tests.number").first.click()
        listed.get_by_text('seed 0  {"x":1.0}').wait_for()
        assert listed.inner_text().count("seed") == 5


def test_a_figure_is_an_image_with_words(browser, address: str) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        assert page.get_by_role("img", name="y grows by one with each seed.").count() == 3
        assert page.locator(".plot[role=img]").count() == PLOTS


def test_no_text_becomes_a_script(browser, address: str) -> None:
    visit = Visit(browser, address, **DESKTOP)
    with visit as page:
        assert page.title() == "Separatrix: what the papers claim, and what holds"
        assert page.locator("article img[src], main script:not([type])").count() == 0
        assert HOSTILE in page.locator("article .statement").all_text_contents()
        page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
        assert page.evaluate("typeof window.ran") == "undefined"
        while not visit.complaints:
            page.wait_for_timeout(50)
        (refusal,) = visit.complaints
        assert "Content Security Policy" in refusal
        visit.complaints.clear()


def test_the_page_can_be_read_without_scripts(browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False, **DESKTOP)
    page = context.new_page()
    page.goto(address)
    assert len(shown(page)) == 8
    assert not page.locator("#filter").is_visible()
    for summary in page.locator("article > details > summary").all():
        summary.click()
    assert page.locator("figcaption:visible").count() == PLOTS
    context.close()
