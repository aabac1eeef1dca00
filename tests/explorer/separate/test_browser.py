"""The explorer's frame and the tab Separate in a real browser."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from separatrix.explorer.address import SECOND
from separatrix.explorer.claims import tab as claims_tab
from separatrix.explorer.fields import Field
from separatrix.explorer.separate import tab as separate_tab
from tests.explorer.bad_values import bad_values
from tests.explorer.visit import DESKTOP, PHONE, Visit, go_to, screens, state, wait_for_state

INK = {"light": "rgb(27, 31, 36)", "dark": "rgb(228, 231, 235)"}
QUICK = "?tab=separate&n=200&d=12&along=d"


@pytest.fixture(scope="module")
def address(browser, serve, tmp_path_factory: pytest.TempPathFactory) -> str:
    return serve(tmp_path_factory.mktemp("browser"), pages={"separate": separate_tab, "claims": claims_tab})


def drawn(page: Any) -> None:
    """Wait until the curve and the rows are drawn."""
    page.locator(".parts").wait_for()
    page.locator("figure .scatterlayer .trace").first.wait_for(state="attached")
    page.locator("figure .barlayer .trace").first.wait_for(state="attached")


def success(page: Any) -> str:
    return page.locator(".parts .success td b").first.text_content()


def field(page: Any, name: str) -> Any:
    return page.locator(f'input[id*=\'"of":"{name}"\']')


@screens
def test_a_first_visit_says_something_on_any_screen(browser, address: str, device: dict, scheme: str) -> None:
    with Visit(browser, address, **device, color_scheme=scheme) as page:
        drawn(page)
        assert "Move a1 across the step of the curve" in page.locator(".lead").text_content()
        assert success(page) == "0.9791"
        assert page.evaluate("getComputedStyle(document.body).color") == INK[scheme]
        for letters in (".xtick text", ".legendtext"):
            inks = f"[...document.querySelectorAll('.plot {letters}')].map(one => getComputedStyle(one).fill)"
            assert set(page.evaluate(inks)) == {INK[scheme]}
        assert page.evaluate("document.documentElement.scrollWidth") == device["viewport"]["width"]
        clipped = (
            "[...document.querySelectorAll('figure .main-svg')].some(one => one.clientHeight && one.clientHeight < 300)"
        )
        assert not page.evaluate(clipped)


def test_a_slider_moves_the_text_the_numbers_and_the_address(browser, address: str) -> None:
    with Visit(browser, address, f"{QUICK}&weights=identity", **DESKTOP) as page:
        drawn(page)
        before = success(page)
        slider = page.get_by_role("slider", name="a₁")
        assert slider.get_attribute("aria-valuetext") == "1.2"
        slider.focus()
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => document.location.search.includes('a1=1.17')")
        assert field(page, "a1").input_value() == "1.17"
        page.get_by_role("slider", name="n").focus()
        page.keyboard.press("End")
        page.wait_for_function("() => document.location.search.includes('n=1e100')")
        page.wait_for_function(f"() => document.querySelector('.parts .success b').textContent !== '{before}'")
        # History entries: the previous page, this page, and one for each slider, or on a busy machine for each key
        # press.
        assert 4 <= page.evaluate("history.length") <= 6


def test_the_back_button_takes_a_change_back(browser, address: str) -> None:
    with Visit(browser, address, QUICK, **DESKTOP) as page:
        drawn(page)
        field(page, "a1").fill("0.7")
        page.wait_for_function("() => document.location.search.includes('a1=0.7&')")
        page.get_by_role("radio", name="self-attention, identity").check()
        page.wait_for_function("() => document.location.search.includes('weights=identity')")
        page.go_back()
        page.wait_for_function("() => document.location.search.includes('weights=ones')")
        page.wait_for_function("() => document.querySelector('input[value=ones]').checked")
        assert field(page, "a1").input_value() == "0.7"
        page.go_back()
        page.locator("input[value='1.2']").wait_for()
        page.go_forward()
        page.locator("input[value='0.7']").first.wait_for()


def test_a_setting_to_try_is_a_change_and_a_second_parameter_makes_a_map(browser, address: str) -> None:
    with Visit(browser, address, QUICK, **DESKTOP) as page:
        drawn(page)
        page.get_by_role("link", name="a map of n and d").click()
        caption = page.locator("figure[data-name=separation-along] figcaption")
        caption.get_by_text("The probability of success with softmax over n and d").wait_for()
        page.locator("figure[data-name=separation-along] .heatmaplayer image").wait_for(state="attached")
        wait_for_state(page, along="n", across="d")
        page.go_back()
        caption.get_by_text("The probability of success with softmax along").wait_for()
        wait_for_state(page, across="none")


def test_a_text_moves_the_slider_and_a_hypothesis_is_named_below_it(browser, address: str) -> None:
    with Visit(browser, address, QUICK, **DESKTOP) as page:
        drawn(page)
        field(page, "a0").fill("0.5")
        note = page.locator('[id*=\'"of":"a0"\'].notes')
        note.get_by_text("Definition D.1 requires a0 in (0, 0.1).").wait_for()
        assert page.get_by_role("slider", name="a₀").get_attribute("aria-valuenow") == "50"
        field(page, "a0").fill("lots")
        note.get_by_text("expected a number from 0 to 5").wait_for()
        assert note.get_by_role("alert").count() == 1
        field(page, "a0").fill("0.01")
        page.locator(".kept").wait_for()


def test_the_state_survives_a_reload_and_going_back(browser, address: str) -> None:
    with Visit(browser, address, QUICK, **DESKTOP) as page:
        drawn(page)
        page.locator("label", has_text="cross-attention").click()
        field(page, "d").fill("11")
        page.locator(".parts").get_by_text("softmax fires on D1").wait_for()
        page.wait_for_function("() => location.search.includes('weights=cross') && location.search.includes('d=11')")
        kept = state(page)
        page.reload()
        drawn(page)
        assert state(page) == kept
        assert field(page, "d").input_value() == "11"
        page.get_by_role("tab", name="Claims").click()
        page.get_by_text("What the verdicts mean").wait_for()
        page.go_back()
        drawn(page)
        assert state(page) == kept
        assert page.get_by_role("tab", name="Separate").get_attribute("aria-selected") == "true"


def test_two_settings_side_by_side(browser, address: str) -> None:
    with Visit(browser, address, QUICK, **DESKTOP) as page:
        drawn(page)
        page.get_by_role("button", name="Compare with a second setting").click()
        page.get_by_text("Code: setting B").wait_for()
        drawn(page)
        assert (state(page)["a1"], state(page)["a1.2"]) == ("1.2", "0.7"), "the second setting opens as the first"
        field(page, "d.2").fill("22")
        page.wait_for_function("() => location.search.includes('d.2=22')")
        page.wait_for_function(
            "() => new Set([...document.querySelectorAll('.parts .success b')].map(one => one.textContent)).size === 2"
        )
        page.reload()
        drawn(page)
        assert field(page, "d.2").input_value() == "22"
        for device in (1280, 360):
            page.set_viewport_size({"width": device, "height": 800})
            page.wait_for_function("width => document.documentElement.scrollWidth === width", arg=device)
        page.get_by_role("button", name="Close Setting B").click()
        page.get_by_role("button", name="Compare with a second setting").wait_for()
        assert not [name for name in state(page) if name.endswith(SECOND)]


def test_by_keyboard_alone(browser, address: str) -> None:
    with Visit(browser, address, QUICK, **DESKTOP) as page:
        drawn(page)

        def focused(what: str) -> str:
            return page.evaluate(f"document.activeElement.{what}")

        page.keyboard.press("Tab")
        assert focused("className") == "skip"
        page.keyboard.press("Tab")
        assert focused("textContent") == "Separate"
        page.keyboard.press("ArrowRight")
        page.get_by_text("What the verdicts mean").wait_for()
        assert focused("textContent") == "Claims"
        page.keyboard.press("ArrowRight")
        drawn(page)
        assert focused("textContent") == "Separate"
        assert page.locator("[role=tab][tabindex='0']").all_text_contents() == ["Separate"]
        names = []
        for _ in range(40):
            page.keyboard.press("Tab")
            names.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
            outlined = page.evaluate(
                "(one => getComputedStyle(one.closest('label.dash-options-list-option') || one).outlineStyle)"
                "(document.activeElement)"
            )
            assert outlined != "none" or "dash" in names[-1] or "field" in names[-1], names[-1]
        order = [match[1] for match in map(re.compile(r'"kind":"field","of":"(\w+)"').search, names) if match]
        assert order == ["n", "d", "m", "a0", "a1", "b", "c"]
        # Select an option by the arrow keys.
        page.locator("input[type=radio][value=ones]").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_function("() => location.search.includes('weights=identity')")


def test_help_says_what_a_symbol_is_and_where(browser, address: str) -> None:
    with Visit(browser, address, QUICK, **PHONE) as page:
        drawn(page)
        for one in separate_tab.FIELDS:
            page.locator(f'summary[aria-label="What is {one.label}?"]').first.click()
        messages = page.locator("details[open] p").all_text_contents()
        for text, field in zip(messages, separate_tab.FIELDS, strict=True):
            help = f"{field.help} {field.place}."
            assert text.endswith(help.rpartition("$")[2])  # the text after the last formula, or the whole text
            assert "$" not in text
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_copying_and_saving(browser, address: str) -> None:
    options = {**DESKTOP, "permissions": ["clipboard-read", "clipboard-write"]}
    with Visit(browser, address, QUICK, **options) as page:
        drawn(page)
        for name, begins in (
            ("Copy as Python", "from separatrix.separation import"),
            ("Copy as command", "separatrix"),
        ):
            page.get_by_role("button", name=name).first.click()
            page.get_by_text("Copied.").first.wait_for()
            copied = page.evaluate("navigator.clipboard.readText()")
            assert copied.startswith(begins)
            assert copied in page.locator("pre").all_text_contents()
        files = {}
        for kind in ("PNG", "SVG", "CSV"):
            with page.expect_download() as download:
                page.get_by_role("button", name=f"Save Probability of success as {kind}").click()
            assert download.value.suggested_filename == f"separation-along.{kind.lower()}"
            files[kind] = Path(download.value.path()).read_bytes()
        assert files["PNG"].startswith(b"\x89PNG")
        assert b"<svg" in files["SVG"]
        rows = list(csv.DictReader(io.StringIO(files["CSV"].decode())))
        assert len(rows) > 4
        assert set(rows[0]) >= {"setting", "d", "success"}


def bad_view(one: Field) -> tuple[str, list[str]]:
    """An address with a bad value of a field, in both settings if both have it, and the names of the bad values."""
    names = [one.name] if one.shared else [one.name, one.name + SECOND]
    bad = bad_values(one)[len(one.name) % 6 + 2]
    return "&".join(f"{name}={bad}" for name in names), names


def told_and_mended(page: Any, fields: Sequence[Field], names: Sequence[str]) -> None:
    """Assert that a page names the bad values of its address, and uses the defaults in their place."""
    alert = page.locator(".alert.address").filter(has_text=f"{names[-1]}: expected")
    alert.wait_for()
    page.locator(".parts").wait_for()
    messages = alert.locator("li").all_text_contents()
    assert sorted(message.partition(": expected")[0] for message in messages) == sorted(names)
    assert alert.get_attribute("role") == "alert"
    page.wait_for_function("() => location.search.includes('mechanism=softmax')")
    kept = state(page)
    assert [kept[field.name] for field in fields] == [field.default for field in fields]


def test_all_values_of_the_address_may_be_bad_at_once(browser, address: str) -> None:
    queries, names = zip(*map(bad_view, separate_tab.FIELDS), strict=True)
    with Visit(browser, address, f"?tab=separate&{'&'.join(queries)}", **DESKTOP) as page:
        told_and_mended(page, separate_tab.FIELDS, [name for some in names for name in some])


def test_a_bad_value_in_the_address_is_reported(browser, address: str) -> None:
    """Bad values of each field are reported, one after the other on one page."""
    with Visit(browser, address, QUICK, **DESKTOP) as page:
        drawn(page)
        for field in separate_tab.FIELDS:
            query, names = bad_view(field)
            go_to(page, f"?tab=separate&{query}")
            told_and_mended(page, [field], names)
