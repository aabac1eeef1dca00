"""Texts with formulas: what is between two dollar signs is LaTeX.

Pages typeset the formulas; a terminal gets them as readable text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """A part of a text: words, or the LaTeX of a formula without its dollar signs."""

    text: str
    is_formula: bool


def pieces(text: str) -> Sequence[Piece]:
    r"""The words and the formulas of a text, in their order; a dollar sign without its partner stands for itself.

    >>> [piece.text for piece in pieces(r"At most $\delta$, for every $n$.")]
    ['At most ', '\\delta', ', for every ', 'n', '.']
    """
    parts = text.split("$")
    if len(parts) % 2 == 0:
        return [Piece(text, is_formula=False)]
    return [Piece(part, is_formula=i % 2 == 1) for i, part in enumerate(parts) if part]
