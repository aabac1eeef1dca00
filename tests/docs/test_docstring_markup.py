from __future__ import annotations

import doctest
import warnings

import pytest
from docutils.core import publish_doctree
from hypothesis import given
from hypothesis import strategies as st
from sphinx.ext.napoleon import Config, GoogleDocstring

from docs._ext import docstring_markup, ledger_pages
from docs._ext.docstring_markup import inline, rst

LINKS = {"plan": "separatrix.plan"}


@pytest.mark.parametrize("module", [docstring_markup, ledger_pages])
def test_examples(module) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("the `plan`", "the :py:obj:`plan <separatrix.plan>`"),
        ("the `other`", "the ``other``"),
        ("``a b``", "``a b``"),
        ("`k`-th", "``k``-th"),
        ("`k`s", "``k``\\ s"),
        ("2`k`", "2\\ ``k``"),
        ("(`k`)", "(``k``)"),
        ("**True means: q * k**", "**True means: q \\* k**"),
        ("*every* token", "*every* token"),
        ("shape (*batch, L) and (*batch, 1)", "shape (\\*batch, L) and (\\*batch, 1)"),
        ("q * k_1 * k_2", "q \\* k\\_1 \\* k\\_2"),
        ("|s| <= R", "\\|s\\| \\<= R"),
        ("reads::", "reads\\::"),
    ],
)
def test_inline(text: str, made: str) -> None:
    assert inline(text, LINKS) == made


def test_blocks() -> None:
    docstring = [
        "The `plan` of this.",
        "",
        "    s = q * k",
        "",
        "- one: item",
        "  of two lines",
        "- `plan`",
        "",
        ">>> 1 + 1",
        "2",
    ]
    assert rst(docstring, LINKS) == [
        "The :py:obj:`plan <separatrix.plan>` of this.",
        "",
        ".. code-block:: text",
        "",
        "    s = q * k",
        "",
        "- one: item of two lines",
        "- :py:obj:`plan <separatrix.plan>`",
        "",
        ">>> 1 + 1",
        "2",
        "",
    ]


def test_sections_are_left_to_napoleon_with_their_text_translated() -> None:
    docstring = [
        "Args:",
        "    n: Tokens,",
        "        of which there are |n|.",
        "    d: Width of the `plan`.",
        "",
        "Returns:",
        "    The `plan` of two",
        "    lines.",
        "",
        "Raises:",
        "    ValueError: If there is none.",
        "",
        "Example:",
        "    >>> 1 + 1",
        "    2",
        "",
        "    >>> 1 + 2",
        "    3",
        "",
        "The last `word`.",
    ]
    assert rst(docstring, LINKS) == [
        "Args:",
        "    n: Tokens, of which there are \\|n\\|.",
        "    d: Width of the :py:obj:`plan <separatrix.plan>`.",
        "",
        "Returns:",
        "    The :py:obj:`plan <separatrix.plan>` of two lines.",
        "",
        "Raises:",
        "    ValueError: If there is none.",
        "",
        "Example:",
        "    >>> 1 + 1",
        "    2",
        "",
        "    >>> 1 + 2",
        "    3",
        "",
        "The last ``word``.",
        "",
    ]


def test_napoleon_reads_the_sections() -> None:
    docstring = ["The sum.", "", "Args:", "    a, b: Numbers: |a|", "    *more: Others.", "", "Returns:", "    It."]
    config = Config(napoleon_use_param=False, napoleon_use_rtype=False)
    made = str(GoogleDocstring(rst(docstring, LINKS), config))
    assert [line for line in made.splitlines() if line] == [
        "The sum.",
        ":Parameters: * **a, b** -- Numbers: \\|a\\|",
        "             * **\\*more** -- Others.",
        ":returns: It.",
    ]


def test_the_colons_before_a_formula_are_one() -> None:
    assert rst(["It reads::", "", "    x = 1"], {}) == ["It reads:", "", ".. code-block:: text", "", "    x = 1", ""]


@given(st.text(alphabet="ab_*|`<>\\ (.1:-", max_size=40))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    """Text that is neither code nor bold nor emphasis passes through reStructuredText unchanged."""
    text = " ".join(text.replace("`", "").replace("**", "").split())
    if docstring_markup._EMPHASIS.search(text) or not text:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        shown = publish_doctree(f"x {inline(text, {})}", settings_overrides={"report_level": 2, "halt_level": 2})
    assert shown.astext() == f"x {text}"
