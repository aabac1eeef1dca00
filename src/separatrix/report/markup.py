"""HTML elements, with all text escaped.

>>> tag("p", "a < b, ", tag("b", "c & d"), class_="note", tabindex=0, hidden=True)
'<p class="note" tabindex="0" hidden>a &lt; b, <b>c &amp; d</b></p>'
>>> tag("br"), tag("a", "here", href='"#x', id=None)
('<br>', '<a href="&quot;#x">here</a>')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}


class Html(str):
    """A string of HTML, which is not escaped again."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | int | bool | None) -> Html:
    """An element. A child that is not `Html` is escaped; an attribute that is None or False is omitted.

    Underscores in the name of an attribute become dashes; one at the end, as in ``class_``, is removed.
    """
    written = "".join(
        _attribute(key, value) for key, value in attributes.items() if not (value is None or value is False)
    )
    inside = join(children)
    if name in _VOID:
        if inside:
            raise TypeError(f"<{name}> holds nothing")
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{inside}</{name}>")


def _attribute(key: str, value: str | int | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def join(children: Iterable[str | None], between: str = "") -> Html:
    """Concatenate children, with text escaped.

    >>> join(["a", None, tag("i", "b")], " < ")
    'a &lt; <i>b</i>'
    """
    texts = (
        child if isinstance(child, Html) else escape(child, quote=False) for child in children if child is not None
    )
    return Html(escape(between, quote=False).join(texts))


def table(head: Iterable[str], rows: Iterable[Iterable[str]], **attributes: str | int | bool | None) -> Html:
    """A table whose first column has the row headings. Cells carry the name of their column for narrow screens."""
    names = list(head)

    def row(cells: Iterable[str]) -> Html:
        first, *rest = zip(names, cells, strict=True)
        return tag(
            "tr",
            tag("th", first[1], scope="row", data_column=first[0]),
            *(tag("td", cell, data_column=name) for name, cell in rest),
        )

    top = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    return tag("table", top, tag("tbody", *map(row, rows)), **attributes)


def inert(content: str, **attributes: str) -> Html:
    """A script element with JSON data, escaped so that no text in it can close the element."""
    safe = content.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return tag("script", Html(safe), type="application/json", **attributes)


def slug(text: str) -> str:
    """A name for a file.

    >>> slug("kronecker/lemma-c.3: errors")
    'kronecker-lemma-c.3-errors'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")
