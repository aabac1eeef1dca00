"""Docstrings, which are written to be read in the source, as reStructuredText.

Formulas are indented, code is between single backticks, and a star or a bar is a star or a bar: here each becomes what
Sphinx has for it. Sections in Google style (``Args:``, ``Returns:``, ...) stay sections, for `sphinx.ext.napoleon` to
read after this; only their text is translated. Some docstrings have lines of ``name: what it is`` without ``Args:``,
which become a definition list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

_INLINE = re.compile(r"``(?P<double>[^`]+)``|`(?P<single>[^`]+)`|\*\*(?P<bold>\S(?:[^*]|\*(?!\*))*?)\*\*", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*(])\*(?=\w)([^*\n]*?\w[.,]?)\*(?![\w*])")
_ARGUMENT = re.compile(r"(?P<names>\*{0,2}[A-Za-z_][\w.]*(?:, \*{0,2}[A-Za-z_][\w.]*)*): (?P<text>\S.*)")
_SECTIONS = {"Args:", "Attributes:", "Example:", "Raises:", "Returns:", "Yields:"}
_FIELDS = {"Args:", "Attributes:", "Raises:"}
_SPECIAL = re.compile(r"([\\*|_`<>]|:(?=:))")


def rst(lines: Sequence[str], links: Mapping[str, str], arguments: Collection[str] = ()) -> list[str]:
    """The lines of a docstring, as `inspect.cleandoc` leaves them, in reStructuredText.

    Args:
        lines: the docstring.
        links: the full names of what has a page, by the names that docstrings call it.
        arguments: the names that may head a line of ``name: what it is`` outside a section; a sentence may begin with
            a word and a colon too.

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
    made: list[str] = []
    for head, part in _parts(lines):
        if head is None:
            for block in _blocks(part):
                made += [*_block(block, links, arguments), ""]
        else:
            body = _fields(part, links) if head in _FIELDS else rst(part, links)
            made += [head, *(f"    {line}".rstrip() for line in body if line or head not in _FIELDS)]
            made += [""] if made[-1] else []
    return made


def _parts(lines: Sequence[str]) -> Iterator[tuple[str | None, list[str]]]:
    """The sections with their heads, their text no longer indented, and between them what is in no section."""
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
    """Paragraphs; indented ones that follow each other are one, since a formula may have an empty line."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _block(block: Sequence[str], links: Mapping[str, str], known: Collection[str]) -> list[str]:
    if block[0].startswith(">>>"):
        return list(block)
    if all(line.startswith("    ") for line in block):
        return [".. code-block:: text", "", *block]
    if (marker := re.match(r"- |\d+\. ", block[0])) is not None:
        return _list(block, len(marker[0]), links)
    arguments = _arguments(block, known)
    if arguments is not None:
        return [line for names, text in arguments for line in (_code(names), f"    {inline(text, links)}")]
    text = "\n".join(line.strip() for line in block)
    if text.endswith("::"):  # the formula that follows is marked as such in any case
        text = text.removesuffix(":")
    return [inline(text, links).replace("\n", " ")]


def _list(block: Sequence[str], width: int, links: Mapping[str, str]) -> list[str]:
    """An item a line, its continuation joined to it."""
    items: list[str] = []
    for line in block:
        if re.match(r"- |\d+\. ", line):
            items.append(line)
        else:
            items[-1] += " " + line.strip()
    return [item[:width] + inline(item[width:], links) for item in items]


def _arguments(block: Sequence[str], known: Collection[str]) -> list[tuple[str, str]] | None:
    """The names and texts of a block of arguments; None if it is no such block."""
    found: list[tuple[str, str]] = []
    for line in block:
        if line.startswith("    ") and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif (argument := _ARGUMENT.fullmatch(line)) is not None:
            found.append((argument["names"], argument["text"]))
        else:
            return None
    heads = {name.strip("*") for names, _ in found for name in names.split(", ")}
    return found if heads & set(known) else None


def _code(names: str) -> str:
    return ", ".join(f"``{name}``" for name in names.split(", "))


def inline(text: str, links: Mapping[str, str]) -> str:
    """Code, links, bold and emphasis; every other character stands for itself."""
    made, at = [], 0
    for found in _INLINE.finditer(text):
        made.append(_plain(text[at : found.start()]))
        made.append(_joined(text, found, links))
        at = found.end()
    return "".join([*made, _plain(text[at:])])


def _joined(text: str, found: re.Match[str], links: Mapping[str, str]) -> str:
    """The markup, kept apart from the letters that touch it by what reStructuredText swallows."""
    if found["bold"] is not None:
        made = f"**{_escaped(found['bold'])}**"
    else:
        code = " ".join((found["double"] or found["single"]).split())
        made = f":py:obj:`{code} <{links[code]}>`" if code in links else f"``{code}``"
    before = "\\ " if re.match(r"[^\s([{'\"-]", text[found.start() - 1 : found.start()]) else ""
    after = "\\ " if re.match(r"\w", text[found.end() : found.end() + 1]) else ""
    return before + made + after


def _plain(text: str) -> str:
    made, at = [], 0
    for found in _EMPHASIS.finditer(text):
        made += [_escaped(text[at : found.start()]), f"*{_escaped(found[1])}*"]
        at = found.end()
    return "".join([*made, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
