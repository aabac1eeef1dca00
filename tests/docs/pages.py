"""The code of a page: its fences, and their output when they run in order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = {"dask.md", "hugging-face.md", "torchrun.md"}
"""Pages of the guide whose `bash` commands need a cluster, a model or several processes: see `tests/examples`."""
PAGES = [
    page
    for page in [DOCS / "index.md", DOCS / "tour.md", *sorted((DOCS / "guide").glob("*.md"))]
    if "```python" in page.read_text()
]
COMMITTED = ("errata", "commands", "gallery", "guide/verifying", "guide/evidence", "derivations/machine-checked")
MADE = [ROOT / "README.md", *(DOCS / f"{page}.md" for page in COMMITTED)]
MADE += sorted((DOCS / "papers").glob("*.md"))
"""Pages with parts that are generated from the source and committed."""
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

RUN_IN_ORDER = """
import contextlib, io, json, sys
codes, printed, world = json.loads(sys.argv[1]), [], {"__name__": "__main__"}
for number, code in enumerate(codes):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, f"block {number}", "exec"), world)
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


@dataclass(frozen=True)
class Block:
    """The code of a fence, its language, and the output that the page prints."""

    language: str
    code: str
    printed: str | None = None


def blocks(text: str) -> list[Block]:
    """The fences of a page. A `text` fence directly after code is the output of that code."""
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(text):
        code = fence["code"]
        if fence["language"] == "text" and found and not text[end : fence.start()].strip():
            found[-1] = Block(found[-1].language, found[-1].code, code)
        else:
            found.append(Block(fence["language"], code))
        end = fence.end()
    return found


def run_in_order(run: Callable[..., CompletedProcess[str]], codes: Sequence[str]) -> list[str]:
    """The output of each piece of code, all in one single-threaded interpreter, where warnings are errors."""
    done = run(RUN_IN_ORDER, json.dumps(list(codes)), OMP_NUM_THREADS="1")
    assert (done.returncode, done.stderr) == (0, "")
    printed: list[str] = json.loads(done.stdout)
    return printed
