"""The code of the tour and the guide, run as it is printed, and the commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from separatrix import certified_attention
from separatrix.commands.app import app
from tests.docs.pages import DOCS, ELSEWHERE, PAGES, ROOT, Block, blocks, run_in_order

COMMANDED = [
    page
    for page in [DOCS / "start.md", DOCS / "tour.md", *sorted((DOCS / "guide").glob("*.md")), DOCS / "papers/index.md"]
    if page.name not in ELSEWHERE
]


def test_finding_blocks() -> None:
    page = "```sh\nmake\n```\n\n```python\nx = 1\n```\n\n```text\nout\n```\n\nProse.\n\n```text\nseparate\n```\n"
    assert blocks(page) == [Block("sh", "make\n"), Block("python", "x = 1\n", "out\n"), Block("text", "separate\n")]


def test_pages_are_found() -> None:
    assert {page.name for page in PAGES} >= {"tour.md", "near-linear.md", "streaming.md", "sharding.md"}


def test_every_block_of_code_is_known() -> None:
    """Nothing is spelt as code and run by nobody."""
    for page in DOCS.rglob("*.md"):
        if "_build" not in page.parts:
            languages = {block.language for block in blocks(page.read_text())}
            assert languages <= {"python", "sh", "text", "toml", *(["bash"] if page.name in ELSEWHERE else [])}, page
            assert "python" not in languages or page in PAGES, page
            assert "sh" not in languages or page in COMMANDED, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_prints_what_the_page_says(forked, page: Path) -> None:
    code = [block for block in blocks(page.read_text()) if block.language == "python"]
    printed = run_in_order(forked, [block.code for block in code])
    assert printed == [block.printed or "" for block in code], "python -m tests.docs.refresh writes it anew"


def _commands() -> list[str]:
    """Every line of every shell block, each once, in the order of the pages."""
    seen: dict[str, None] = {}
    for page in COMMANDED:
        for block in blocks(page.read_text()):
            if block.language == "sh":
                seen |= dict.fromkeys(line.partition("  #")[0].strip() for line in block.code.splitlines())
    return list(seen)


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`separatrix` is run, `make` is looked up, and `pip` would change the environment it runs in."""
    monkeypatch.chdir(tmp_path)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in COMMANDED:
        for block in blocks(page.read_text()):
            if block.language == "toml":
                (tmp_path / "sweep.toml").write_text(block.code)
    x = torch.rand(3, 20, 4, generator=torch.Generator().manual_seed(0))
    certified_attention(*x, tolerance=1e-3).save(tmp_path / "call.safetensors", *x)
    ran = []
    for command in _commands():
        program, *words = shlex.split(command)
        if program == "make":
            assert set(words) <= targets, command
        elif program != "pip":
            assert program == "separatrix", command
            # Workers would each import the library again; what they run is the same.
            words += ["--in-process"] if words[0] in ("reproduce", "sweep") else []
            done = CliRunner().invoke(app, words)
            assert (done.exit_code, done.exception) == (0, None), f"{command}\n{done.output}"
            ran.append(words[0])
    assert {"doctor", "plan", "claims", "reproduce", "sweep", "store", "verify"} <= set(ran)
    assert (tmp_path / "results" / "report-only.html").exists()
