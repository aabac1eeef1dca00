"""The docstrings of the library as reStructuredText, before Sphinx's napoleon reads their sections.

Docstrings are read in the source and in editors more often than on these pages, so they have Google's sections and no
other markup: formulas are indented, code is between single backticks, and stars and bars are literal. The extension
napoleon translates only the sections and treats the rest as reStructuredText. In reStructuredText a bar begins a
substitution and a star begins emphasis, which Sphinx reported 84 times as errors when it was tried; the lines of an
indented formula are joined, which happened to 68 formulas without a warning; and a name between backticks is not a
link. This file escapes, marks up and links these texts, so that no docstring has to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_INLINE = re.compile(r"``(?P<double>[^`]+)``|`(?P<single>[^`]+)`|\*\*(?P<bold>\S(?:[^*]|\*(?!\*))*?)\*\*", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*(])\*(?=\w)([^*\n]*?\w[.,]?)\*(?![\w*])")
_SECTIONS = {"Args:", "Attributes:", "Example:", "Raises:", "Returns:", "Yields:"}
_FIELDS = {"Args:", "Attributes:", "Raises:"}
_SPECIAL = re.compile(r"([\\*|_`<>]|:(?=:))")


def rst(lines: Sequence[str], links: Mapping[str, str]) -> list[str]:
    """The lines of a docstring, as `inspect.cleandoc` leaves them, in reStructuredText.

    Args: lines: the docstring. links: the full names of documented objects, by the names that docstrings use.

    Example:
        >>> docstring = ["The `plan` of |x|.", "", "Args:", "    n: tokens,", "        at least 1.", "    d: width."]
        >>> print("\\n".join(rst(docstring, {"plan": "sx.plan"})))
        The :py:obj:`plan <sx.plan>` of \\|x\\|.
        <BLANKLINE>
        Args:
            n: tokens, at least 1.
            d: width.
        <BLANKLINE>
    """
    lines_out: list[str] = []
    for head, part in _parts(lines):
        if head is None:
            for block in _blocks(part):
                lines_out += [*_block(block, links), ""]
        else:
            body = _fields(part, links) if head in _FIELDS else rst(part, links)
            lines_out += [head, *(f"    {line}".rstrip() for line in body if line or head not in _FIELDS)]
            lines_out += [""] if lines_out[-1] else []
    return lines_out


def _parts(lines: Sequence[str]) -> Iterator[tuple[str | None, list[str]]]:
    """The sections, with headings and unindented text, and the text outside of sections."""
    head: str | None = None
    part: list[str] = []
    for at, line in enumerate(lines):
        begins = line in _SECTIONS and lines[at + 1 : at + 2] and lines[at + 1].startswith("    ")
        if begins or (head is not None and line and not line.startswith(" ")):
            yield head, part
            head, part = (line, []) if begins else (None, [line])
        else:
            part.append(line if head is None else line.removeprefix("    "))
    yield head, part


def _fields(lines: Sequence[str], links: Mapping[str, str]) -> list[str]:
    """The fields of a section, each ``name: text`` on one line."""
    fields: list[str] = []
    for line in filter(None, lines):
        if line.startswith(" ") and fields:
            fields[-1] += f" {line.strip()}"
        else:
            fields.append(line)
    return [f"{name}: {inline(text.strip(), links)}" for name, _, text in (field.partition(":") for field in fields)]


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """The paragraphs of a text; indented paragraphs are joined, because a formula may have an empty line."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _block(block: Sequence[str], links: Mapping[str, str]) -> list[str]:
    if block[0].startswith(">>>"):
        return list(block)
    if all(line.startswith("    ") for line in block):
        return [".. code-block:: text", "", *block]
    if (marker := re.match(r"- |\d+\. ", block[0])) is not None:
        return _list(block, len(marker[0]), links)
    text = "\n".join(line.strip() for line in block)
    if text.endswith("::"):  # the next formula is always marked up
        text = text.removesuffix(":")
    return [inline(text, links).replace("\n", " ")]


def _list(block: Sequence[str], width: int, links: Mapping[str, str]) -> list[str]:
    """One item per line, with its continuation lines joined."""
    items: list[str] = []
    for line in block:
        if re.match(r"- |\d+\. ", line):
            items.append(line)
        else:
            items[-1] += " " + line.strip()
    return [item[:width] + inline(item[width:], links) for item in items]


def inline(text: str, links: Mapping[str, str]) -> str:
    """Mark up code, links, bold and emphasis; escape all other characters."""
    parts, at = [], 0
    for match in _INLINE.finditer(text):
        parts.append(_plain(text[at : match.start()]))
        parts.append(_joined(text, match, links))
        at = match.end()
    return "".join([*parts, _plain(text[at:])])


def _joined(text: str, match: re.Match[str], links: Mapping[str, str]) -> str:
    """The markup, separated from adjacent letters by an escaped space, which reStructuredText removes."""
    if match["bold"] is not None:
        markup = f"**{_escaped(match['bold'])}**"
    else:
        code = " ".join((match["double"] or match["single"]).split())
        markup = f":py:obj:`{code} <{links[code]}>`" if code in links else f"``{code}``"
    before = "\\ " if re.match(r"[^\s([{'\"-]", text[match.start() - 1 : match.start()]) else ""
    after = "\\ " if re.match(r"\w", text[match.end() : match.end() + 1]) else ""
    return before + markup + after


def _plain(text: str) -> str:
    parts, at = [], 0
    for match in _EMPHASIS.finditer(text):
        parts += [_escaped(text[at : match.start()]), f"*{_escaped(match[1])}*"]
        at = match.end()
    return "".join([*parts, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
