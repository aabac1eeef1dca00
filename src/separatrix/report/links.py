"""Where the code of a function lies, and a link to it for a page that lies in the same checkout."""

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
    """A file and a line. `root` is the checkout that holds the file, None if it is installed."""

    module: str
    file: Path
    line: int
    root: Path | None

    def __str__(self) -> str:
        """The path in the repository, or else the module; and the line."""
        where = self.module if self.root is None else self.file.relative_to(self.root).as_posix()
        return f"{where}:{self.line}"


def place(function: Callable[..., Any]) -> SourceLine:
    """Where a function is defined.

    >>> from textwrap import dedent
    >>> str(place(dedent)).partition(":")[0]
    'textwrap'
    """
    inner = inspect.unwrap(function)
    code = inner.__code__
    file = Path(code.co_filename).resolve()
    return SourceLine(inner.__module__, file, code.co_firstlineno, checkout(file))


def checkout(path: Path) -> Path | None:
    """The folder above `path` that holds a project's source; None for what is installed beside other packages."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return None
    return next((folder for folder in path.parents if (folder / "pyproject.toml").is_file()), None)


def link(function: Callable[..., Any], page: Path) -> Html:
    """The place of a function; a link if the page lies in its checkout, so that no path outside it is told."""
    found = place(function)
    shown = tag("code", str(found))
    if found.root is None or not page.resolve().is_relative_to(found.root):
        return shown
    return tag("a", shown, href=quote(Path(os.path.relpath(found.file, page.resolve().parent)).as_posix()))
