"""Docstrings make sense alone, in an editor's tooltip, and name arguments in Google-style sections."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

_LEANING = re.compile(r"(The same|Of|As above|Likewise|Ditto)\b")
_ARGUMENT = re.compile(r"(\*{0,2}\w+(?:, \w+)*): \S")


@dataclass(frozen=True)
class Texts:
    """The docstrings of a file, each with the names of its object and of arguments or fields; and its other texts."""

    docstrings: list[tuple[str, str, set[str]]]
    after_names: list[str]


@cache
def texts_of(file: Path) -> Texts:
    """The texts of a file, which is parsed once for all tests."""
    tree = ast.parse(file.read_text())
    return Texts(list(documented(tree)), list(strings_after_names(tree)))


def documented(tree: ast.Module) -> Iterator[tuple[str, str, set[str]]]:
    """Each docstring of a file with the name of its object, and the names of its arguments or fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            given = {x.target.id for x in node.body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)}
            if not isinstance(node, ast.ClassDef):
                given = {x.arg for x in (*node.args.args, *node.args.kwonlyargs)}
            yield node.name, ast.get_docstring(node) or "", given


def strings_after_names(tree: ast.Module) -> Iterator[str]:
    """The texts that describe a constant, directly after it."""
    for before, node in pairwise(tree.body):
        described = isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(node, ast.Expr)
        if described and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def test_no_docstring_depends_on_another_text(root: Path) -> None:
    leaning = []
    for file in sorted((root / "src").rglob("*.py")):
        texts = texts_of(file)
        all_texts = [text for _, text, _ in texts.docstrings] + texts.after_names
        leaning += [f"{file.name}: {text[:60]}" for text in all_texts if _LEANING.match(text)]
    assert leaning == []


def test_arguments_are_named_in_sections(root: Path) -> None:
    loose = []
    for file in sorted((root / "src").rglob("*.py")):
        for name, text, given in texts_of(file).docstrings:
            for line in text.splitlines():
                match = _ARGUMENT.match(line)
                if match and given & {word.strip(" *") for word in match[1].split(",")}:
                    loose.append(f"{file.name}, {name}: {line[:60]}")
    assert loose == []
