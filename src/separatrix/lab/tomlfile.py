"""Reading a file of TOML, with an error that names the file and the line.

A file is refused before it can take long: one that is large, one whose keys have very many parts, for which Python's
reader takes time that grows with the square of their number, and one that is nested too deeply.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from separatrix.errors import SeparatrixError
from separatrix.files import read_at_most

LARGEST_FILE = 1 << 18
"""Bytes of a file, at most."""
MOST_PARTS = 32
"""Parts of a dotted key, at most."""
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"""(?<![A-Za-z0-9_"'-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


def load(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The table that a file holds."""
    try:
        data = read_at_most(path, LARGEST_FILE + 1)
    except OSError as error:
        raise SeparatrixError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > LARGEST_FILE:
        raise SeparatrixError(
            f"{path} has more than {LARGEST_FILE:,} bytes. Write what is regular as a range {{ from, to, step }}, and "
            "what is not as several files."
        )
    try:
        text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise SeparatrixError(f"{path} is not text in UTF-8: byte {error.start} is not part of a character.") from error
    try:
        return parse(text, parse_float)
    except tomllib.TOMLDecodeError as error:
        last = f"at line {len(text.splitlines())}, the end of the file"
        raise SeparatrixError(f"{path} is not TOML: {str(error).replace('at end of document', last)}.") from error
    except Unreadable as error:
        raise SeparatrixError(f"{path} cannot be read: {error}.") from error


class Unreadable(SeparatrixError):
    """A text in TOML that is beyond what is read here."""


def parse(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The table that a text holds."""
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise Unreadable(f"at line {line} it has a key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except (tomllib.TOMLDecodeError, SeparatrixError):
        raise
    except RecursionError:
        raise Unreadable("it has lists or tables that are nested too deeply") from None
    except ValueError as error:  # Python turns no longer text into an integer
        raise Unreadable("it has an integer of thousands of digits") from error
