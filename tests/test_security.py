"""Every row of the table in SECURITY.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROW = re.compile(r"^\| (?!what comes|---)(.+?) \| .+ \| .+ \| (.+) \|$", re.M)


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}


def missing(text: str, root: Path) -> dict[str, list[str]]:
    """The rows of the table that name no test, or tests that do not exist; with these tests."""
    found = {}
    for what, shown_by in ROW.findall(text):
        tests = re.findall(r"`([^`]+)`", shown_by)
        absent = []
        for test in tests:
            file, _, name = test.partition("::")
            if not (root / file).is_file() or name not in functions(root / file):
                absent.append(test)
        if absent or not tests:
            found[what] = absent
    return found


def test_every_test_that_the_table_names_exists(root: Path) -> None:
    text = (root / "SECURITY.md").read_text()
    assert len(ROW.findall(text)) == text.count("\n| ") - 2, "a row that is not of four columns"
    assert len(ROW.findall(text)) > 10
    assert missing(text, root) == {}


@pytest.mark.parametrize(
    "shown_by", ["nothing", "`tests/test_security.py::test_nowhere`", "`tests/nowhere.py::test_a`"]
)
def test_a_row_without_its_test_is_found(root: Path, shown_by: str) -> None:
    assert list(missing(f"| a file | be read | run code | {shown_by} |\n", root)) == ["a file"]
