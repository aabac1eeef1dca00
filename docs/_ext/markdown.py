"""Markdown of texts: every character stands for itself, and what is between dollar signs is a formula."""

from __future__ import annotations

import re

from separatrix.claims.formulas import pieces


def marked(text: str) -> str:
    r"""A text of the ledger within a line of Markdown: its formulas as LaTeX between dollar signs, the rest plain.

    Between a brace and an underscore comes a space, which LaTeX ignores: without it some sites take two underscores in
    formulas for emphasis.

    >>> marked(r"At most $\hat{x}_1 < 2$ * n")
    'At most $\\hat{x} _1 < 2$ \\* n'
    """
    return "".join(
        f"${piece.text.replace('}_', '} _')}$" if piece.is_formula else plain(piece.text) for piece in pieces(text)
    )


def plain(text: str) -> str:
    """Text in which every character stands for itself, within a line of Markdown.

    An underscore inside a word needs no backslash; brackets need none unless they would make a link.

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
