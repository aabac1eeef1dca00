"""HTML in which text is escaped unless it was made here.

>>> tag("p", "a < b, ", tag("b", "c & d"), class_="note", tabindex=0, hidden=True)
'<p class="note" tabindex="0" hidden>a &lt; b, <b>c &amp; d</b></p>'
>>> tag("br"), tag("a", "here", href='"#x', id=None)
('<br>', '<a href="&quot;#x">here</a>')
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from html import escape

_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | int | bool | None) -> Html:
    """An element. A child that is no `Html` is escaped; an attribute that is None or False is left out.

    An underscore in an attribute's name is a dash, and one at its end, for Python's own words, is nothing.
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
    """Children one after the other, as in an element.

    >>> join(["a", None, tag("i", "b")], " < ")
    'a &lt; <i>b</i>'
    """
    texts = (
        child if isinstance(child, Html) else escape(child, quote=False) for child in children if child is not None
    )
    return Html(escape(between, quote=False).join(texts))


def table(head: Iterable[str], rows: Iterable[Iterable[str]], **attributes: str | int | bool | None) -> Html:
    """A table whose first column names the rows. A cell knows its column's name, for screens too narrow for a head."""
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


def data_link(text: str, media: str, filename: str, content: str) -> Html:
    """A link that saves `content` as a file, with no server behind it."""
    encoded = base64.b64encode(content.encode()).decode()
    return tag("a", text, href=f"data:{media};charset=utf-8;base64,{encoded}", download=filename)


def inert(content: str, **attributes: str) -> Html:
    """JSON for the page's own script to read; no text in it can end the element."""
    safe = content.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return tag("script", Html(safe), type="application/json", **attributes)


def slug(text: str) -> str:
    """A name for a file.

    >>> slug("kronecker/lemma-c.3: errors")
    'kronecker-lemma-c.3-errors'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")
