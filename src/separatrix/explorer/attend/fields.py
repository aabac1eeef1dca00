"""The values of the tab Attend."""

from __future__ import annotations

from separatrix.errors import ArgumentError
from separatrix.explorer.fields import Field, choice


def _index(name: str, label: str, help: str, default: str) -> Field:
    """An index into the uploaded file, whose size is known only when it is read."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 12):
            raise ArgumentError(name, expected="a whole number from 0", got=repr(text))
        return int(text)

    return Field(name, label, help, "", default, parse)


FIELDS = (
    _index("query", "query", "The query whose weights are shown, counted from 0.", "5"),
    _index(
        "head", "head", "The head, counted from 0. Several leading dimensions are flattened in row-major order.", "0"
    ),
    choice(
        "causal",
        "causal",
        "Whether queries attend only to keys up to their own position. Files of Certified.save have this option.",
        "Alman and Song, Definition 1.5, with a mask",
        {"no": "attends to all keys", "yes": "attends to earlier keys"},
        default="no",
    ),
)
