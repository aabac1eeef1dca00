"""The style sheet of the documents in a real browser: figures on dark pages, tables on phones, the errata filter.

The pages are small ones with the structure that the theme gives to the documents.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from docs._ext.errata_pages import errata_counts
from tests.docs.pages import DOCS
from tests.report.visits import DESKTOP, PHONE, Windows

BACKGROUND = (19, 20, 22)
"""The background of the theme's dark pages."""


def write_page(folder: Path, content: str, *, name: str = "page.html", dark: bool = False) -> str:
    """Write a page of the documents with this content; return its address."""
    css, script = ((DOCS / "_static" / file).as_uri() for file in ("pages.css", "errata.js"))
    background = f"background: rgb{BACKGROUND}" if dark else "background: white"
    file = folder / name
    file.write_text(
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{css}">'
        f'<script src="{script}"></script></head><body data-theme="{"dark" if dark else "light"}" '
        f'style="margin: 0; {background}"><div class="main"><div class="content"><article>{content}</article></div>'
        "</div></body></html>"
    )
    return file.as_uri()


@contextmanager
def visited(browser: Windows, address: str, **options: Any) -> Iterator[Any]:
    """A browser page at this address."""
    page = browser.open(**options)
    page.goto(address)
    yield page
    browser.leave(page)


def pixel(png: bytes, x: int, y: int) -> tuple[int, ...]:
    """A pixel of a screenshot by Chromium: a PNG with eight bits per channel, not interlaced."""
    width, _, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", png[16:29])
    channels = {2: 3, 6: 4}[kind]
    assert (depth, interlaced) == (8, 0)
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    raw, row, stride = zlib.decompress(data), bytearray(width * channels), width * channels
    for line in range(y + 1):
        how, coded = raw[line * (stride + 1)], raw[line * (stride + 1) + 1 : (line + 1) * (stride + 1)]
        above, row = row, bytearray(stride)
        for i, value in enumerate(coded):
            left, up, corner = (row[i - channels] if i >= channels else 0), above[i], above[i - channels]
            corner = corner if i >= channels else 0
            nearest = min((left, up, corner), key=lambda near: abs(left + up - corner - near))
            row[i] = (value + (0, left, up, (left + up) // 2, nearest)[how]) & 255
    return tuple(row[x * channels : x * channels + 3])


@pytest.mark.parametrize(
    "figure", ["time-against-length.svg", "evidence.svg", "joins.svg", "is-it-for-me.svg", "data-sets.svg"]
)
def test_a_figure_has_no_white_box_on_a_dark_page(browser: Any, tmp_path: Path, figure: str) -> None:
    image = f'<img src="{(DOCS / "_static" / figure).as_uri()}" style="display: block; width: 400px" alt="">'
    address = write_page(tmp_path, image, dark=True)
    with visited(browser, address, **DESKTOP) as page:
        page.wait_for_function("document.images[0].complete && document.images[0].naturalWidth > 0")
        corner = pixel(page.screenshot(), 1, 1)
    assert max(abs(seen - expected) for seen, expected in zip(corner, BACKGROUND, strict=True)) <= 4


def test_a_pair_map_has_its_own_colours_on_a_dark_page(browser: Any, tmp_path: Path) -> None:
    image = f'<img src="{(DOCS / "guide" / "pair-map.svg").as_uri()}" alt="">'
    with visited(browser, write_page(tmp_path, image, dark=True), **DESKTOP) as page:
        assert page.locator("img").evaluate("image => getComputedStyle(image).filter") == "none"


@pytest.mark.parametrize(("figure", "own"), [("gallery/largest_order.svg", True), ("evidence.svg", False)])
def test_the_colours_of_a_thumbnail_are_not_inverted(browser: Any, tmp_path: Path, figure: str, own: bool) -> None:
    """The report's figures have a transparent background; figures on white are inverted here, too."""
    image = f'<div class="gallery"><img src="{(DOCS / "_static" / figure).as_uri()}" alt=""></div>'
    with visited(browser, write_page(tmp_path, image, dark=True), **DESKTOP) as page:
        assert (page.locator("img").evaluate("image => getComputedStyle(image).filter") == "none") == own


def test_numbers_of_a_table_stay_on_one_line(browser: Any, tmp_path: Path) -> None:
    cells = "".join(f'<td class="text-right">0.{i}4 ± 0.02</td>' for i in range(9))
    table = f'<div class="table-wrapper"><table class="docutils"><tr>{cells}</tr></table></div>'
    with visited(browser, write_page(tmp_path, table), **PHONE) as page:
        heights = page.locator("td").evaluate_all("cells => cells.map((cell) => cell.clientHeight)")
        assert max(heights) < 40


def test_a_line_does_not_begin_with_the_punctuation_of_a_formula(browser: Any, tmp_path: Path) -> None:
    """MathJax replaces a formula by an inline block, after which a browser may break the line."""
    block = '<mjx-container style="display: inline-block; width: 60px; height: 10px"></mjx-container>'
    content = f'<p style="width: 60px; margin: 0">{block},</p>'
    joined = f'<p style="width: 60px; margin: 0"><span class="unbroken">{block},</span></p>'
    with visited(browser, write_page(tmp_path, content + joined), **DESKTOP) as page:
        broken, kept = page.locator("p").evaluate_all("lines => lines.map((line) => line.clientHeight)")
    assert broken >= 1.5 * kept


@pytest.mark.parametrize("figure", ["time-against-length.svg", "evidence.svg"])
def test_a_figure_of_several_panels_is_readable_on_a_phone(browser: Any, tmp_path: Path, figure: str) -> None:
    image = f'<p><img src="{(DOCS / "_static" / figure).as_uri()}" style="height: auto" alt=""></p>'
    with visited(browser, write_page(tmp_path, image), **PHONE) as page:
        page.wait_for_function("document.images[0].complete && document.images[0].naturalWidth > 0")
        assert page.locator("img").bounding_box()["width"] >= 600
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]


def extras() -> str:
    """The table of the extras, from the installation page."""
    text = (DOCS / "start.md").read_text()
    return text[text.index("| extra |") :].partition("\n\n")[0]


@pytest.mark.parametrize("text", [errata_counts().partition("\n\n")[0], extras()], ids=["errata", "extras"])
def test_a_table_is_readable_on_a_phone(browser: Any, tmp_path: Path, text: str) -> None:
    """No word of the table is broken between letters, and no column is cut off."""
    table = MarkdownIt().enable("table").render(text)
    table = table.replace("<table>", '<div class="table-wrapper"><table class="docutils">')
    address = write_page(tmp_path, table.replace("</table>", "</table></div>"))
    with visited(browser, address, **PHONE) as page:
        wrapper = page.locator(".table-wrapper")
        scrolled, seen = wrapper.evaluate("box => [box.scrollWidth, box.clientWidth]")
        assert scrolled <= seen
        broken = page.evaluate(
            """() => [...document.querySelectorAll("td, th")].flatMap((cell) => {
              const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
              for (let text; (text = texts.nextNode()); ) {
                for (const word of text.data.matchAll(/[^\\s-]+/g)) {
                  const range = document.createRange();
                  range.setStart(text, word.index);
                  range.setEnd(text, word.index + word[0].length);
                  if (range.getClientRects().length > 1) found.push(word[0]);
                }
              }
              return found;
            })"""
        )
        assert broken == []
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]


def test_errata_can_be_filtered(browser: Any, tmp_path: Path) -> None:
    errata = "".join(
        f"<section><h3>{number}. {place}</h3><p>{text}</p></section>"
        for number, (place, text) in enumerate([("Lemma D.6", "a threshold"), ("Lemma D.8", "a sign")], 1)
    )
    address = write_page(tmp_path, f"<section><h1>Errata</h1>{errata}</section>", name="errata.html")
    with visited(browser, address, **DESKTOP) as page:
        page.get_by_label("Show only errata with").fill("lemma threshold")
        shown = [page.get_by_role("heading", name=name).is_visible() for name in ("1. Lemma D.6", "2. Lemma D.8")]
        assert shown == [True, False]
        page.get_by_text("1 of 2").wait_for()
