"""The code of a page: its fences, and what they do when they are run in order."""

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
"""Pages of the guide whose commands, in `bash`, need a cluster, a model or several processes: see `tests/examples`."""
PAGES = [
    page
    for page in [DOCS / "index.md", DOCS / "tour.md", *sorted((DOCS / "guide").glob("*.md"))]
    if "```python" in page.read_text()
]
COMMITTED = ("errata", "commands", "gallery", "guide/verifying", "guide/evidence", "derivations/machine-checked")
MADE = [ROOT / "README.md", *(DOCS / f"{page}.md" for page in COMMITTED)]
MADE += sorted((DOCS / "papers").glob("*.md"))
"""Pages with parts that are made from the source and committed."""
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
    """The code of a fence, its language, and what the page says that it prints."""

    language: str
    code: str
    printed: str | None = None


def blocks(text: str) -> list[Block]:
    """The fences of a page. A fence in `text` that follows right after code is what that code prints."""
    seen: list[Block] = []
    end = 0
    for fence in FENCE.finditer(text):
        code = fence["code"]
        if fence["language"] == "text" and seen and not text[end : fence.start()].strip():
            seen[-1] = Block(seen[-1].language, seen[-1].code, code)
        else:
            seen.append(Block(fence["language"], code))
        end = fence.end()
    return seen


def run_in_order(run: Callable[..., CompletedProcess[str]], codes: Sequence[str]) -> list[str]:
    """What each piece of code prints, all in one interpreter of one thread, where warnings are errors."""
    done = run(RUN_IN_ORDER, json.dumps(list(codes)), OMP_NUM_THREADS="1")
    assert (done.returncode, done.stderr) == (0, "")
    printed: list[str] = json.loads(done.stdout)
    return printed
