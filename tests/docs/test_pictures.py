"""The picture of a page is the one that its code draws."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs._ext import data_sets_figure
from tests.docs.pages import DOCS, blocks


def test_the_map_of_the_guide_is_drawn_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare word by word: colours and lengths of bars may differ in the last digit between machines."""
    page = DOCS / "guide" / "seeing.md"
    monkeypatch.chdir(tmp_path)
    program = "\n".join(block.code for block in blocks(page.read_text()) if block.language == "python")
    exec(compile(program, page.name, "exec"), {})
    drawn, shown = (ElementTree.parse(folder / "pair-map.svg").getroot() for folder in (tmp_path, page.parent))
    assert [*drawn.itertext()] == [*shown.itertext()], "copy the file that the page's code writes"
    assert [part.tag for part in drawn.iter()] == [part.tag for part in shown.iter()]


def test_the_data_sets_are_drawn_from_their_definition() -> None:
    assert data_sets_figure.FIGURE.read_text() == data_sets_figure.svg(), "python -m tests.docs.refresh --made"
    assert "_static/data-sets.svg" in (DOCS / "papers" / "separation.md").read_text()
