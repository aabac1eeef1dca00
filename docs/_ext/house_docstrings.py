"""The docstrings of the library as reStructuredText.

They are written to be read in the source: arguments are lines of ``name: what it is``, alone or under ``Args:``,
formulas are indented, code is between single backticks, and a star or a bar is a star or a bar. Here each becomes what
Sphinx has for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

_INLINE = re.compile(r"``(?P<double>[^`]+)``|`(?P<single>[^`]+)`|\*\*(?P<bold>\S(?:[^*]|\*(?!\*))*?)\*\*", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*(])\*(?=\w)([^*\n]*?\w[.,]?)\*(?![\w*])")
_ARGUMENT = re.compile(r"(?P<names>\*{0,2}[A-Za-z_][\w.]*(?:, \*{0,2}[A-Za-z_][\w.]*)*): (?P<text>\S.*)")
_SECTIONS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Raises", "Example:": "Example"}
_SPECIAL = re.compile(r"([\\*|_`<>]|:(?=:))")


def rst(lines: Sequence[str], links: Mapping[str, str], arguments: Collection[str] = ()) -> list[str]:
    """The lines of a docstring, as `inspect.cleandoc` leaves them, in reStructuredText.

    links: the full names of what has a page, by the names that docstrings call it.
    arguments: the names that may head a line of ``name: what it is``; a sentence may begin with a word and a colon too.

    >>> docstring = ["The `plan` of |x|.", "", "n: tokens,", "    at least 1.", "d: width."]
    >>> print("\\n".join(rst(docstring, {"plan": "sx.plan"}, {"n", "d"})))
    The :py:obj:`plan <sx.plan>` of \\|x\\|.
    <BLANKLINE>
    ``n``
        tokens, at least 1.
    ``d``
        width.
    <BLANKLINE>
    """
    made: list[str] = []
    for block in _blocks(lines):
        made += [*_block(block, links, arguments), ""]
    return made


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
    if block[0] in _SECTIONS and len(block) > 1 and all(line.startswith("    ") for line in block[1:]):
        body = [line.removeprefix("    ") for line in block[1:]]
        heads = {line.split(":")[0] for line in body} if block[0] in ("Args:", "Raises:") else set()
        return [f"**{_SECTIONS[block[0]]}**", "", *_block(body, links, heads)]
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
