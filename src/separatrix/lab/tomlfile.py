"""Reading a file of TOML, with an error that names the file and the line."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from separatrix.errors import SeparatrixError


def load(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The table that a file holds."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SeparatrixError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SeparatrixError(f"{path} is not text in UTF-8: byte {error.start} is not part of a character.") from error
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError as error:
        last = f"at line {len(text.splitlines())}, the end of the file"
        raise SeparatrixError(f"{path} is not TOML: {str(error).replace('at end of document', last)}.") from error
