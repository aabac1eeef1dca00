"""Formulas and badges of the report in a real browser: none is clipped or covers text.

No line begins with the punctuation after a formula.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import separatrix.report
from separatrix.claims.ledger import Verdict, claims
from separatrix.report.claim_parts import legend
from separatrix.report.markup import Html, tag
from separatrix.report.typeset import typeset
from separatrix.studies import load


def write_page(path: Path, content: str) -> str:
    """Write a page with the style sheet of the report; return its address."""
    style = (Path(separatrix.report.__file__).parent / "assets" / "page.css").read_text()
    path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style><main>{content}</main>')
    return path.as_uri()


def statement(text: str, **attributes: str) -> Html:
    return tag("p", *typeset(text, tag), class_="statement", **attributes)


def test_no_formula_is_clipped_at_one_device_pixel_per_css_pixel(browser, tmp_path: Path) -> None:
    """A scrolling element clips content that exceeds it: the screenshot is the same as without clipping."""
    load()
    address = write_page(tmp_path / "formulas.html", "".join(statement(claim.says) for claim in claims()))
    context = browser.new_context(viewport={"width": 1400, "height": 900}, device_scale_factor=1)
    page = context.new_page()
    page.goto(address)
    formulas = page.locator("math").count()
    wide = page.evaluate("[...document.querySelectorAll('math')].filter(e => e.scrollWidth > e.clientWidth + 1).length")
    assert formulas > 300
    assert wide == 0, "a formula that scrolls is clipped, as it should be: the window must be wider"
    clipped = page.screenshot(full_page=True)
    page.add_style_tag(content="math { overflow: visible !important }")
    whole = page.screenshot(full_page=True)
    context.close()
    assert clipped == whole


def test_a_line_does_not_begin_with_the_punctuation_after_a_formula(browser, tmp_path: Path) -> None:
    address = write_page(tmp_path / "line.html", statement("It falls as $1/n$. And so on.", id="text"))
    context = browser.new_context(viewport={"width": 600, "height": 400})
    page = context.new_page()
    page.goto(address)
    level = """() => {
      const formula = document.querySelector("math"), after = document.createRange(), text = formula.nextSibling;
      after.setStart(text, 0); after.setEnd(text, 1);
      const [a, b] = [formula.getBoundingClientRect(), after.getBoundingClientRect()];
      return text.data[0] === "." && b.top < a.bottom && b.bottom > a.top && b.left >= a.right - 6;
    }"""
    for width in range(40, 200, 4):
        page.evaluate("width => { document.querySelector('#text').style.width = `${width}px`; }", width)
        assert page.evaluate(level), width
    context.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_no_badge_of_the_legend_covers_its_explanation(browser, width: int, tmp_path: Path) -> None:
    """A badge stands above its explanation, and is no wider than that."""
    address = write_page(tmp_path / "legend.html", str(legend(tag)))
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(address)
    free = page.locator(".legend .badge").evaluate_all(
        """all => all.map((badge) => {
          const [text, own] = [badge.closest("dt").nextElementSibling, badge].map((x) => x.getBoundingClientRect());
          return Math.min(text.top - own.bottom, text.right - own.right);
        })"""
    )
    context.close()
    assert len(free) == len(Verdict)
    assert min(free) >= 0
