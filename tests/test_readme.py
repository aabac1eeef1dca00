from __future__ import annotations

import re
from pathlib import Path

import pytest

from separatrix import studies
from separatrix.claims.counts import count_recorded
from separatrix.claims.errata import slips

README = Path(__file__).resolve().parents[1] / "README.md"
FENCE = re.compile(r"^(`{3,}|~{3,}) *(\w*)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    """The code of every fence whose language is spelt py, python, python3, pycon ..."""
    return [code for _, language, code in FENCE.findall(text) if language.lower().startswith("py")]


def test_finding_blocks() -> None:
    text = "```sh\nmake\n```\n\n```python\nx = 1\n```\nthen\n~~~py title\ny = 2\n\nz = 3\n~~~\n"
    assert python_blocks(text) == ["x = 1\n", "y = 2\n\nz = 3\n"]


def test_there_is_an_example() -> None:
    assert python_blocks(README.read_text())


@pytest.mark.parametrize("number", range(len(python_blocks(README.read_text())) if README.exists() else 0))
def test_example_runs_as_printed(forked, number: int) -> None:
    done = forked(python_blocks(README.read_text())[number])
    assert (done.returncode, done.stderr) == (0, "")


def test_it_counts_the_claims_as_the_ledger_does() -> None:
    studies.load()
    count = count_recorded()
    text = " ".join(README.read_text().split())
    assert f"{count.claims} claims of three papers and beyond" in text
    assert f"{len(slips())} misprints are shown" in text
    assert f"checks the {count.quick} quick ones again" in text
    assert f"decides the other {count.full} claims" in text
