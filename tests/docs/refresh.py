"""`python -m tests.docs.refresh`: regenerate the parts of pages and notebooks that come from code. Review the diff.

These are the outputs of their code, and the parts generated from the source: the papers' tables, the errata, the
commands, the evidence and its figure, and the index of the ledger. With `--made` only the parts generated from the
source are regenerated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from docs._ext import data_sets_figure, evidence_figure, joins_figure, notebook_figures
from docs._ext.made import refreshed
from separatrix.claims.index import INDEX, index_of
from separatrix.claims.ledger import claims
from separatrix.studies import load
from tests.docs.pages import FENCE, MADE, NOTEBOOKS, PAGES, RUN_IN_ORDER


def printed_by(codes: list[str]) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", RUN_IN_ORDER, json.dumps(codes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    parsed: list[str] = json.loads(done.stdout)
    return parsed


def refresh_page(path: Path) -> None:
    text = path.read_text()
    fences = list(FENCE.finditer(text))
    printed = iter(printed_by([fence["code"] for fence in fences if fence["language"] == "python"]))
    made, at = [], 0
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        if fence["language"] == "python":
            said = next(printed)
            shown = after is not None and after["language"] == "text" and not text[fence.end() : after.start()].strip()
            made.append(text[at : fence.end()])
            at = after.end() if shown and after is not None else fence.end()
            made.append(f"\n\n```text\n{said}```" if said else "")
    path.write_text("".join([*made, text[at:]]))


def refresh_notebook(path: Path) -> None:
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, said in zip(cells, printed_by(["".join(cell["source"]) for cell in cells]), strict=True):
        stream = {"name": "stdout", "output_type": "stream", "text": said.splitlines(keepends=True)}
        cell["outputs"] = [stream] if said else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def refresh_made(path: Path) -> None:
    path.write_text(refreshed(path.read_text()))


if __name__ == "__main__":
    asked = sys.argv[1:]
    for page in MADE if asked in ([], ["--made"]) else ():
        print(page)
        refresh_made(page)
    if asked in ([], ["--made"]):
        load()
        INDEX.write_text(index_of(claims()), "utf-8")
        for drawn in (data_sets_figure, evidence_figure, joins_figure):
            drawn.FIGURE.write_text(drawn.svg())
        notebook_figures.draw_all()
    for page in map(Path, [] if asked == ["--made"] else asked or [*PAGES, *NOTEBOOKS]):
        print(page)
        (refresh_notebook if page.suffix == ".ipynb" else refresh_page)(page)
