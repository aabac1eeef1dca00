"""`python -m tests.docs.refresh`: write what the code of the pages and notebooks prints into them. Look at the diff."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import FENCE, NOTEBOOKS, PAGES, RUN_IN_ORDER


def printed_by(codes: list[str]) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", RUN_IN_ORDER, json.dumps(codes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


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


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:] or [*PAGES, *NOTEBOOKS]):
        print(page)
        (refresh_notebook if page.suffix == ".ipynb" else refresh_page)(page)
