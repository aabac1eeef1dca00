"""Reads TOML files; an error names the file and, where it can, the line.

Files that would take long to read raise an error: large files, files with keys of very many parts, for which Python's
reader takes time that grows with the square of their number, and files that are nested too deeply.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from separatrix.errors import SeparatrixError, shortened
from separatrix.files import read_at_most

LARGEST_FILE = 1 << 18
"""The largest number of bytes that a file may have."""
MOST_PARTS = 32
"""The largest number of parts that a dotted key may have."""
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"""(?<![A-Za-z0-9_"'-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


def load(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The table in a file; `parse_float` converts the text of its floats.

    Raises:
        SeparatrixError: if the file cannot be read, or violates one of these limits.
    """
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
        raise SeparatrixError(
            f"{path} is not TOML: {shortened(str(error)).replace('at end of document', last)}."
        ) from error
    except Unreadable as error:
        raise SeparatrixError(f"{path} cannot be read: {error}.") from error


class Unreadable(SeparatrixError):
    """The text is valid TOML, but violates one of the limits."""


def parse(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The table in a text; `parse_float` converts the text of its floats.

    Raises:
        tomllib.TOMLDecodeError: if the text is not TOML.
        Unreadable: if the text violates one of the limits.
    """
    if long_key := _LONG_KEY.search(text):
        line = text.count("\n", 0, long_key.start()) + 1
        raise Unreadable(f"at line {line} it has a key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except (tomllib.TOMLDecodeError, SeparatrixError):
        raise
    except RecursionError:
        raise Unreadable("it has lists or tables that are nested too deeply") from None
    except ValueError as error:  # Python refuses to convert such a text to an integer
        raise Unreadable("it has an integer of thousands of digits") from error
