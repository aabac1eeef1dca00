"""Texts as Markdown: all characters are literal, except formulas between dollar signs."""

from __future__ import annotations

import re

from separatrix.claims.formulas import pieces


def marked(text: str) -> str:
    r"""A text of the ledger within a line of Markdown: its formulas as LaTeX between dollar signs, the rest plain.

    A space, which LaTeX ignores, separates a brace from an underscore: otherwise some sites read two underscores in
    formulas as emphasis.

    >>> marked(r"At most $\hat{x}_1 < 2$ * n")
    'At most $\\hat{x} _1 < 2$ \\* n'
    """
    return "".join(
        f"${piece.text.replace('}_', '} _')}$" if piece.is_formula else plain(piece.text) for piece in pieces(text)
    )


def plain(text: str) -> str:
    """Text with all characters literal, within a line of Markdown.

    An underscore inside a word needs no backslash; brackets need one only if they would make a link.

    >>> plain("A_1 * |x|_{2} < $2$")
    'A_1 \\\\* \\\\|x\\\\|\\\\_{2} \\\\< \\\\$2\\\\$'
    """
    text = re.sub(r"([\\`*|<$~])", r"\\\1", text)
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return text.replace("](", r"\](")


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it.

    >>> slug("Lemma C.5, part 1")
    'lemma-c5-part-1'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
