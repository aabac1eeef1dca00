from __future__ import annotations

import pytest
from docutils import nodes

from docs._ext.unbroken_formulas import join_punctuation


@pytest.mark.parametrize(
    ("after", "joined", "rest"),
    [(", and", ",", " and"), (").", ").", ""), ("-th row", "-th", " row"), ("'s degree", "'s", " degree")],
)
def test_a_formula_keeps_its_punctuation(after: str, joined: str, rest: str) -> None:
    paragraph = nodes.paragraph("", "", nodes.Text("for "), nodes.math("n", "n"), nodes.Text(after))
    join_punctuation(paragraph)
    before, unbroken, last = paragraph.children
    assert (before.astext(), last.astext()) == ("for ", rest)
    assert unbroken["classes"] == ["unbroken"]
    assert [child.astext() for child in unbroken.children] == ["n", joined]
    assert isinstance(unbroken.children[0], nodes.math)


@pytest.mark.parametrize("after", [" and", " - 1 tokens", "x"])
def test_a_formula_without_punctuation_is_unchanged(after: str) -> None:
    paragraph = nodes.paragraph("", "", nodes.math("n", "n"), nodes.Text(after))
    join_punctuation(paragraph)
    assert [child.astext() for child in paragraph.children] == ["n", after]
    assert isinstance(paragraph.children[0], nodes.math)


def test_a_formula_at_the_end_is_unchanged() -> None:
    paragraph = nodes.paragraph("", "", nodes.Text("for "), nodes.math("n", "n"))
    join_punctuation(paragraph)
    assert len(paragraph.children) == 2
