"""The first figure of each tab has an outline before Plotly is loaded; the drawn figure replaces the outline."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.explorer.scripts import PLOTLY
from tests.report.visits import DESKTOP

FIGURES = {"separate": "separation-along", "compute": "phase", "attend": "attend", "learn": "dynamics"}


@pytest.fixture(scope="module")
def address(browser: Any, serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    return serve(tmp_path_factory.mktemp("outline"))


@pytest.mark.parametrize(("tab", "name"), FIGURES.items())
def test_a_figure_begins_as_its_outline(browser: Any, address: str, tab: str, name: str) -> None:
    context = browser.new_context(**DESKTOP)
    page = context.new_page()
    held: list[Any] = []
    page.route(f"**{PLOTLY}", lambda request: held.append(request))
    page.goto(f"{address}?tab={tab}")
    figure = page.locator(f"figure[data-name={name}]")
    outline = figure.locator("img.sketch")
    outline.wait_for()
    assert outline.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0
    before = figure.locator(".wide").bounding_box()
    inside = outline.bounding_box()
    assert inside["width"] > 0.7 * before["width"]
    assert inside["height"] > 0.5 * before["height"]
    assert page.locator(".main-svg").count() == 0
    figure.locator("figcaption", has_text=" ").wait_for()  # computed values are shown before Plotly is loaded, too
    for request in held:
        request.continue_()
    figure.locator(".main-svg .trace, .main-svg image").first.wait_for(state="attached")
    outline.wait_for(state="hidden")
    after = figure.locator(".wide").bounding_box()
    assert after["height"] == pytest.approx(before["height"], abs=2)  # so that the content below does not move
    context.close()
