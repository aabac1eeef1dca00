"""The gallery: every figure of the report as a thumbnail that leads to its code.

A figure is named by the docstring of its drawing. ``python -m docs._ext.gallery STORE`` redraws the thumbnails, with
their axes, from a store; a figure whose cells the store lacks keeps its thumbnail.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from docs._ext.markdown import plain
from separatrix.claims import PAPERS
from separatrix.claims.ledger import Claim, claims
from separatrix.claims.verdicts import found_in
from separatrix.lab.store import Store
from separatrix.report.figures import FIGURES, draw
from separatrix.report.sketch import lettered
from separatrix.studies import load

DOCS = Path(__file__).resolve().parents[1]
THUMBNAILS = DOCS / "_static" / "gallery"
_SOURCE = DOCS.parent / "src" / "separatrix"


def gallery(paper: str) -> str:
    """The figures of a paper's claims, in the order of the claims, each in a list item with its picture."""
    load()
    items = []
    for name, one in _firsts(paper):
        file = Path(inspect.getfile(inspect.unwrap(FIGURES[name]))).relative_to(_SOURCE).as_posix()
        code = f"../src/separatrix/{file}"
        called = plain(" ".join((inspect.getdoc(FIGURES[name]) or name).split("\n\n")[0].split()).removesuffix("."))
        shown = f"![{called}](_static/gallery/{name}.svg)" if (THUMBNAILS / f"{name}.svg").exists() else called
        items.append(f"- [{shown}]({code})\n\n  {called} (`{one.id}`, [code]({code}))\n")
    return "\n".join(['<div class="gallery">', "", *items, "</div>"])


def _firsts(paper: str) -> Iterator[tuple[str, Claim]]:
    """Each figure with the first claim that shows it."""
    seen: set[str] = set()
    for one in claims():
        for name in one.figures:
            if name not in seen:
                seen.add(name)
                if one.paper == paper:
                    yield name, one


def draw_all(store: Store) -> list[str]:
    """Draw the thumbnail of every figure that the store has all cells of; the answer is the names of the others."""
    load()
    THUMBNAILS.mkdir(exist_ok=True)
    left = dict.fromkeys(FIGURES)
    for one in claims():
        wanted = [name for name in one.figures if name in left]
        found = list(store.find(one.cells())) if wanted else []
        if not wanted or any(record is None or record.status != "done" for _, record in found):
            continue
        results = [found_in(store, cell, record) for cell, record in found if record is not None]
        for name in wanted:
            drawn = draw(name, results).figure.to_dict()
            (THUMBNAILS / f"{name}.svg").write_text(f"{lettered(drawn)}\n")
            del left[name]
    return list(left)


if __name__ == "__main__":
    with Store.open(Path(sys.argv[1])) as opened:
        missing = draw_all(opened)
    print(f"Of {', '.join(PAPERS)}. Not drawn: {', '.join(missing) or 'none'}.")
