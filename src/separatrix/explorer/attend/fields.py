"""The values of the tab Attend."""

from __future__ import annotations

from separatrix.errors import ArgumentError
from separatrix.explorer.fields import Field, choice


def _index(name: str, label: str, help: str, default: str) -> Field:
    """The place of something in a file: which places there are, the file says."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 12):
            raise ArgumentError(name, expected="a whole number from 0", got=repr(text))
        return int(text)

    return Field(name, label, help, "", default, parse)


FIELDS = (
    _index("query", "query", "The query whose weights are shown, counted from 0.", "5"),
    _index(
        "head",
        "head",
        "The head, counted from 0; where there are several leading dimensions, through all of them, the last fastest.",
        "0",
    ),
    choice(
        "causal",
        "causal",
        "Whether a query attends only keys up to its own position. A file that Certified.save wrote says so itself.",
        "Alman and Song, Definition 1.5, with a mask",
        {"no": "attends all keys", "yes": "attends earlier keys"},
        default="no",
    ),
)
