"""The notebooks print their recorded outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs._ext.notebook_figures import DRAWN
from docs._ext.notebook_pages import notebook, printed
from separatrix.report.sketch import labelled
from tests.docs.pages import DOCS, NOTEBOOKS, run_in_order


def test_three() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_output_is_the_recorded_one(forked, path: Path) -> None:
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    found = run_in_order(forked, ["".join(cell["source"]) for cell in code])
    assert found == ["".join(printed(cell)) for cell in code], "python -m tests.docs.refresh writes it anew"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_plain(path: Path) -> None:
    """A notebook has format 4.5, unique cell ids, only text outputs, no execution counts and no magics."""
    held = json.loads(path.read_text())
    assert (held["nbformat"], held["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in held["cells"]}) == len(held["cells"])
    for cell in held["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        if cell["cell_type"] == "code":
            assert cell["execution_count"] is None
            assert {output["output_type"] for output in cell["outputs"]} <= {"stream"}
            assert not any(line.startswith(("%", "!")) for line in cell["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_opens_with_its_figure(path: Path) -> None:
    """Compare word by word: coordinates of points may differ in the last digit between machines."""
    first = "".join(json.loads(path.read_text())["cells"][0]["source"])
    assert re.search(rf"!\[[^]]{{40,}}\]\(figures/{path.stem}\.svg\)$", first)
    picture = ElementTree.parse(path.parent / "figures" / f"{path.stem}.svg").getroot()
    drawn = ElementTree.fromstring(labelled(DRAWN[path.stem]().to_dict()))
    assert [*drawn.itertext()] == [text for text in picture.itertext()], (
        "python -m tests.docs.refresh --made draws it anew"
    )
    assert [part.tag for part in drawn.iter()] == [part.tag for part in picture.iter()]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_a_page(path: Path) -> None:
    assert f"<!-- made: notebook {path.stem} -->" in (DOCS / "notebooks" / f"{path.stem}.md").read_text()
    page = notebook(path.stem)
    assert page.startswith("# ")
    assert page.count("```python") == path.read_text().count('"cell_type": "code"')
