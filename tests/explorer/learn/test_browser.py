"""The tab Learn in a real browser: the dynamics, and a run that is started, watched, reloaded and stopped."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from separatrix.explorer.learn import tab as learn_tab
from separatrix.explorer.learn.training_state import alive, run_status
from tests.explorer.visit import DESKTOP, PHONE, Visit, screens, state, wait_for_state


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def address(browser: Any, serve: Callable[..., str], store: Path) -> str:
    return serve(store, pages={"learn": learn_tab})


def test_a_first_visit_says_something(browser: Any, address: str) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        page.locator("#learn-summary .comparison").wait_for()
        caption = page.locator("figure[data-name=dynamics] figcaption")
        assert "The loss falls from 0.5 to" in caption.inner_text()
        page.locator("figure[data-name=dynamics] .scatterlayer .trace").nth(6).wait_for(state="attached")
        page.get_by_text("There are no runs yet: start one.").wait_for()
        assert page.locator("[role=alert]:not(:empty)").count() == 0
        page.get_by_label("q", exact=True).first.fill("10")
        page.locator(".broken", has_text="Theorem 3.1 requires 2 <= q < T/4 = 5.").wait_for()
        page.get_by_label("q", exact=True).first.fill("20")
        page.locator(".wrong", has_text="q: expected less than T = 20").wait_for()
        wait_for_state(page, q="20")


def test_a_figure_keeps_its_height_in_a_window_of_another_size(browser: Any, address: str) -> None:
    """Plotly then drops the layout's height: without a height of its container the figure could not be saved."""
    with Visit(browser, address, **DESKTOP) as page:
        plot = page.locator("figure[data-name=dynamics] .js-plotly-plot")
        page.locator("figure[data-name=dynamics] .scatterlayer .trace").nth(6).wait_for(state="attached")
        width = plot.evaluate("plot => plot._fullLayout.width")
        page.set_viewport_size({"width": 1000, "height": 700})
        drawn = "(width) => document.querySelector('[data-name=dynamics] .js-plotly-plot')._fullLayout.width !== width"
        page.wait_for_function(drawn, arg=width)
        assert plot.evaluate("plot => [plot.clientHeight, plot._fullLayout.height]") == [720, 720]


def test_a_picture_that_cannot_be_made_is_reported(browser: Any, address: str) -> None:
    visit = Visit(browser, address, **DESKTOP)
    with visit as page:
        page.locator("figure[data-name=dynamics] .scatterlayer .trace").nth(6).wait_for(state="attached")
        page.evaluate("() => { Plotly.toImage = () => Promise.reject(new Error('no canvas')); }")
        page.get_by_role("button", name="Save The dynamics in closed form as PNG").click()
        page.locator(".saves .told.wrong", has_text="That did not work: no canvas").wait_for()
        assert ["no canvas" in complaint for complaint in visit.complaints] == [True]
        visit.complaints.clear()


def test_two_settings_are_in_one_figure_and_fit_a_phone(browser: Any, address: str) -> None:
    with Visit(browser, address, "?tab=learn&T.2=60", **PHONE, color_scheme="dark") as page:
        page.locator("figure[data-name=dynamics] figcaption", has_text="B: the loss").wait_for()
        assert page.locator("#learn-summary th", has_text="Setting B").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") == 360


@screens
def test_a_second_parameter_makes_a_map_of_the_loss(browser: Any, address: str, device: Any, scheme: str) -> None:
    with Visit(browser, address, **device, color_scheme=scheme) as page:
        figure = page.locator("figure[data-name=loss-along]")
        figure.locator("figcaption", has_text="The loss after 1,000,000 steps along T: from").wait_for()
        page.get_by_role("link", name="a map of T and η").click()
        figure.locator("figcaption", has_text="The loss after 1,000,000 steps over T and η: from").wait_for()
        figure.locator(".heatmaplayer image").wait_for(state="attached")
        assert figure.locator(".scatterlayer .point").count() == 1, "no star"
        wait_for_state(page, along="T", across="eta")
        assert page.evaluate("document.documentElement.scrollWidth") == device["viewport"]["width"]
        page.get_by_role("radiogroup", name="Vertical axis").get_by_role("radio", name="none").check()
        figure.locator("figcaption", has_text="The loss after 1,000,000 steps along T: from").wait_for()
        page.get_by_role("button", name="Compare with a second setting").click()
        figure.locator("figcaption", has_text="; B: from").wait_for()


def test_a_second_setting_is_opened_by_its_button(browser: Any, address: str) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        page.locator("#learn-summary .comparison").wait_for()
        page.get_by_role("button", name="Compare with a second setting").click()
        page.locator("figure[data-name=dynamics] figcaption", has_text="B: the loss").wait_for()
        assert page.locator("[role=alert]:not(:empty)").count() == 0


def test_bad_values_of_the_address_are_reported(browser: Any, address: str) -> None:
    view = "?tab=learn&T=2&q=0&d=x&eta=9&steps=1e10&run_T=65&run=../../x&at=-1"
    with Visit(browser, address, view, **DESKTOP) as page:
        said = page.locator("ul[role=alert]")
        said.wait_for()
        for name in ("T", "q", "d", "eta", "steps", "run_T", "at"):
            assert f"{name}: expected" in said.inner_text()
        assert "there is no run '../../x' here" in page.locator("#panel").inner_text()
        page.locator("#learn-summary .comparison").wait_for()


def test_a_run_is_started_watched_reloaded_stopped_and_goes_on(browser: Any, address: str, store: Path) -> None:
    with Visit(browser, address, "?tab=learn&run_T=48&run_d=8&run_d_e=64&run_steps=20000", **DESKTOP) as page:
        page.locator("#learn-summary .comparison").wait_for()
        page.get_by_role("button", name="Start this run").click()
        page.locator(".badge.running").wait_for()
        name = alive(store)
        wait_for_state(page, run=name)
        # A second run is refused while the first one runs.
        page.get_by_role("button", name="Start this run").click()
        page.locator("#act-alert", has_text=f"{name} is still running").wait_for()
        # Watch the run: losses, and the weights at its first checkpoint.
        page.locator("figure[data-name=run-losses] .scatterlayer .trace").first.wait_for(state="attached")
        page.locator("figure[data-name=run-weights] .heatmaplayer image").nth(1).wait_for(state="attached")
        caption = "figure[data-name=run-weights] figcaption"
        page.locator(caption, has_text="stochastic, sgd, seed 0 after").wait_for()
        # After a reload the page shows the same run, read from the store.
        page.reload()
        page.locator(".badge.running").wait_for()
        wait_for_state(page, run=name)
        first = page.locator("#run-status").inner_text()
        page.wait_for_function("(first) => document.querySelector('#run-status').innerText !== first", arg=first)
        page.get_by_role("button", name="Stop it").click()
        page.locator(".badge.stopped").wait_for()
        assert run_status(store, name).resumable
        page.get_by_role("button", name="Stop it").wait_for(state="hidden")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save W and V as PNG").click()
        assert saved.value.suggested_filename == "run-weights.png"
        picture = Path(saved.value.path()).read_bytes()
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")
        width = page.locator("figure[data-name=run-weights] .js-plotly-plot").evaluate("plot => plot.clientWidth")
        assert struct.unpack(">II", picture[16:24]) == (2 * width, 2 * 640)
        page.get_by_role("button", name="Resume").click()
        page.locator(".badge.running").wait_for()
        page.get_by_role("button", name="Stop it").click()
        page.locator(".badge.stopped").wait_for()
    assert alive(store) is None


def test_a_finished_run_shows_its_last_weights_and_is_compared_with_another(
    browser: Any, serve: Callable[..., str], tmp_path: Path
) -> None:
    address = serve(tmp_path)
    with Visit(browser, address, "?tab=learn&run_steps=100&at=7", **DESKTOP) as page:
        page.locator("#learn-summary .comparison").wait_for()
        for seed, steps in ((0, 100), (1, 200)):  # the second run has more steps than the selected step
            for name, value in (("seed", seed), ("steps", steps)):
                page.get_by_role("textbox", name=name, exact=True).last.fill(str(value))
            page.wait_for_function(f"() => location.search.includes('run_steps={steps}&run_seed={seed}')")
            page.get_by_role("button", name="Start this run").click()
            caption = page.locator("figure[data-name=run-weights] figcaption")
            caption.get_by_text(f"seed {seed} after {steps} steps").wait_for()
            page.locator(".badge.finished").wait_for()
        second = state(page)["run"]
        (first,) = {path.name for path in (tmp_path / "training").glob("run-*") if path.is_dir()} - {second}
    with Visit(browser, address, f"?tab=learn&run={second}&beside={first}", **DESKTOP) as page:
        both = page.locator("figure[data-name=run-losses] figcaption", has_text="seed 0 has a loss of")
        both.wait_for()
        assert "at step 200 of 200" in both.inner_text()
        page.locator("figure[data-name=run-losses] .legendtext", has_text="seed 0").wait_for()
        wait_for_state(page, beside=first)


def test_on_a_phone_no_controls_of_the_runs_overlap(browser: Any, address: str) -> None:
    with Visit(browser, address, **PHONE) as page:
        page.locator(".choosers .chooser").nth(1).wait_for()
        boxes = page.locator(".choosers label").evaluate_all(
            "all => all.map(e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })"
        )
        inner = page.locator(".choosers .chooser").evaluate_all(
            "all => all.map(e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })"
        )
        assert len(boxes) == 2
        for first, second in (boxes, inner):
            assert first[3] <= second[1] or second[3] <= first[1] or first[2] <= second[0] or second[2] <= first[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_placeholder_can_be_read_in_both_colour_schemes(browser: Any, address: str, scheme: str) -> None:
    """The contrast of the text with the field is at least 4.5, as WCAG requires."""
    with Visit(browser, address, color_scheme=scheme, **DESKTOP) as page:
        placeholder = page.get_by_text("Other runs", exact=True)
        placeholder.wait_for()
        ink, paper = placeholder.evaluate(
            """(text) => {
              let box = text;
              while (["rgba(0, 0, 0, 0)", "transparent"].includes(getComputedStyle(box).backgroundColor)) {
                box = box.parentElement;
              }
              return [getComputedStyle(text).color, getComputedStyle(box).backgroundColor];
            }"""
        )
        dark, light = sorted(luminance(colour) for colour in (ink, paper))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def luminance(colour: str) -> float:
    """The relative luminance of a colour "rgb(r, g, b)", as WCAG defines it."""
    numbers = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (n / 12.92 if n <= 0.04045 else ((n + 0.055) / 1.055) ** 2.4 for n in numbers)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
