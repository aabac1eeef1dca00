"""All encodings at a small size."""

from __future__ import annotations

from separatrix.claims.selection.valid_encodings import valid_encodings


def test_the_valid_encodings_are_all_of_them() -> None:
    stack = valid_encodings(4, 4)
    assert stack.shape == (26880, 4, 4)
    assert len(stack.unique(dim=0)) == len(stack)
