"""Keeps a formula and the punctuation after it on one line.

MathJax replaces a formula by an element after which a browser may break the line, also before a comma. So the formula
and the punctuation become one inline element of the class ``unbroken``, inside which no line breaks.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

PUNCTUATION = re.compile(r"[.,;:!?)\]]+|'s\b|-\w+")
"""Text that belongs to the formula before it: punctuation, a genitive, or the rest of a hyphenated word."""


def join_punctuation(document: nodes.Element) -> None:
    """Replace every formula that is followed by punctuation by an inline element that contains both."""
    for formula in list(document.findall(nodes.math)):
        after = formula.next_node(descend=False, siblings=True)
        mark = PUNCTUATION.match(after.astext()) if isinstance(after, nodes.Text) else None
        if mark is None:
            continue
        parent, rest = formula.parent, after.astext()[mark.end() :]
        joined = nodes.inline("", "", formula.deepcopy(), nodes.Text(mark[0]), classes=["unbroken"])
        parent.replace(after, nodes.Text(rest))
        parent.replace(formula, joined)


class JoinPunctuation(SphinxPostTransform):
    """Applies `join_punctuation` to the pages of the documents."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        join_punctuation(self.document)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(JoinPunctuation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
