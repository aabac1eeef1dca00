"""The gallery: a thumbnail of every figure of the report, with a link to the code that draws it.

The caption of a figure is the first sentence of its docstring. ``python -m docs._ext.gallery STORE`` redraws the
thumbnails from the results of a store; figures whose cells the store lacks keep their thumbnails.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from docs._ext.markdown import marked, plain
from separatrix.claims import PAPERS
from separatrix.claims.ledger import Claim, claims
from separatrix.claims.verdicts import cell_result
from separatrix.lab.store import Store
from separatrix.report.figures import FIGURES, draw
from separatrix.report.sketch import labelled
from separatrix.report.typeset import with_formulas
from separatrix.studies import load

DOCS = Path(__file__).resolve().parents[1]
THUMBNAILS = DOCS / "_static" / "gallery"
_SOURCE = DOCS.parent / "src" / "separatrix"


def gallery(paper: str) -> str:
    """A Markdown list of the figures of a paper, in the order of the claims."""
    load()
    items = []
    for name, claim in _first_claims(paper):
        file = Path(inspect.getfile(inspect.unwrap(FIGURES[name]))).relative_to(_SOURCE).as_posix()
        code = f"../src/separatrix/{file}"
        caption = " ".join((inspect.getdoc(FIGURES[name]) or name).split("\n\n")[0].split()).removesuffix(".")
        has_thumbnail = (THUMBNAILS / f"{name}.svg").exists()
        thumbnail = f"[![{plain(caption)}](_static/gallery/{name}.svg)]({code})"
        picture = thumbnail if has_thumbnail else "*Drawn by the full profile.*"
        items.append(f"- {picture}\n\n  {marked(with_formulas(caption))} (`{claim.id}`, [code]({code}))\n")
    return "\n".join(['<div class="gallery">', "", *items, "</div>"])


def _first_claims(paper: str) -> Iterator[tuple[str, Claim]]:
    """The figures of a paper, each with the first claim that has it."""
    seen: set[str] = set()
    for claim in claims():
        for name in claim.figures:
            if name not in seen:
                seen.add(name)
                if claim.paper == paper:
                    yield name, claim


def draw_all(store: Store) -> list[str]:
    """Draw the thumbnails of the figures whose cells are all in the store; return the names of the other figures."""
    load()
    THUMBNAILS.mkdir(exist_ok=True)
    missing = dict.fromkeys(FIGURES)
    for claim in claims():
        names = [name for name in claim.figures if name in missing]
        cells = list(store.find(claim.cells())) if names else []
        if not names or any(record is None or record.status != "done" for _, record in cells):
            continue
        results = [cell_result(store, cell, record) for cell, record in cells if record is not None]
        for name in names:
            figure = draw(name, results).figure.to_dict()
            (THUMBNAILS / f"{name}.svg").write_text(f"{labelled(figure, font_size=26, legend=False)}\n")
            del missing[name]
    return list(missing)


if __name__ == "__main__":
    with Store.open(Path(sys.argv[1])) as opened:
        missing = draw_all(opened)
    print(f"Of {', '.join(PAPERS)}. Not drawn: {', '.join(missing) or 'none'}.")
