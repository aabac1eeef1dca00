"""The source location of a function, and a link to it from a page in the same checkout."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from separatrix.report.markup import Html, tag


@dataclass(frozen=True)
class SourceLine:
    """A file and a line. `root` is the checkout of the file, or None for an installed package."""

    module: str
    file: Path
    line: int
    root: Path | None

    def __str__(self) -> str:
        """The path in the repository, or the module of an installed package; and the line."""
        where = self.module if self.root is None else self.file.relative_to(self.root).as_posix()
        return f"{where}:{self.line}"


def place(function: Callable[..., Any]) -> SourceLine:
    """The file and line in which a function is defined.

    >>> from textwrap import dedent
    >>> str(place(dedent)).partition(":")[0]
    'textwrap'
    """
    inner = inspect.unwrap(function)
    code = inner.__code__
    file = Path(code.co_filename).resolve()
    return SourceLine(inner.__module__, file, code.co_firstlineno, checkout(file))


def checkout(path: Path) -> Path | None:
    """The root of the checkout that contains `path`; None for an installed package."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return None
    return next((folder for folder in path.parents if (folder / "pyproject.toml").is_file()), None)


def link(function: Callable[..., Any], page: Path) -> Html:
    """The location of a function, as a link if the page is in the same checkout; other paths are not disclosed."""
    source = place(function)
    code = tag("code", str(source))
    if source.root is None or not page.resolve().is_relative_to(source.root):
        return code
    return tag("a", code, href=quote(Path(os.path.relpath(source.file, page.resolve().parent)).as_posix()))
