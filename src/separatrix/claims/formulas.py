r"""Texts with formulas: what is between two dollar signs is LaTeX.

Pages typeset the formulas, and a terminal shows them as readable text:

>>> print(readable(r"At most $\frac{\delta \sqrt{q}}{1 - \delta}$, where $n^{1 + a_1} \le \tilde{t}$."))
At most (δ √q)/(1 - δ), where n^(1 + a_1) ≤ t̃.

The formulas of the ledger are written in a small part of LaTeX: letters, numbers, scripts, the names of `symbols.py`,
fractions, roots, binomials, accents, alphabets and words. Anything else is a `FormulaError`, so that no page shows what
it cannot typeset. Formulas contain no backslash before a sign, and none of ``|``, ``*`` and ``&``: sites that show
Markdown would interpret these as markup.

The packages latex2mathml and pylatexenc were tried in place of this parser. Both accept formulas with unclosed brackets
and unknown commands, and pylatexenc writes the first fraction above as "δ√(q)/1 - δ", which is another number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from separatrix.claims.symbols import ACCENTS, ALPHABETS, DELIMITERS, FUNCTIONS, SYMBOLS, Kind, lettered

_TOKEN = re.compile(r"\\[A-Za-z]+|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
_MINUS, _PRIME = "\N{MINUS SIGN}", "\N{PRIME}"
_OPERATORS = "+-=<>/:!"
_BRACKETS = {"(": Kind.OPEN.value, "[": Kind.OPEN.value, ")": Kind.CLOSE.value, "]": Kind.CLOSE.value}


class FormulaError(ValueError):
    """A formula that is not in the part of LaTeX that pages can typeset."""


@dataclass(frozen=True)
class Piece:
    """A part of a text: words, or the LaTeX of a formula without its dollar signs."""

    text: str
    is_formula: bool


@dataclass(frozen=True)
class Node:
    """A part of a formula: a sign with its kind, or a construction such as ``frac`` with its parts."""

    kind: str
    text: str = ""
    parts: Sequence[Node] = field(default=())


def pieces(text: str) -> Sequence[Piece]:
    r"""The words and the formulas of a text, in their order; an unmatched dollar sign is plain text.

    >>> [piece.text for piece in pieces(r"At most $\delta$, for every $n$.")]
    ['At most ', '\\delta', ', for every ', 'n', '.']
    """
    parts = text.split("$")
    if len(parts) % 2 == 0:
        return [Piece(text, is_formula=False)]
    return [Piece(part, is_formula=i % 2 == 1) for i, part in enumerate(parts) if part]


def readable(text: str) -> str:
    """A text whose formulas are written with the signs of Unicode, on one line, for a terminal or a search."""
    return "".join(plainly(parse(piece.text)) if piece.is_formula else piece.text for piece in pieces(text))


def parse(latex: str) -> Node:
    """The parts of a formula; a `FormulaError` if it has something that pages cannot typeset."""
    formula = _Reader(latex).row(until="")
    if formula == Node("row"):
        raise FormulaError("a formula is empty")
    return formula


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.tokens = _TOKEN.findall(latex)
        self.at = 0

    def error(self, why: str) -> FormulaError:
        return FormulaError(f"${self.latex}$: {why}")

    def peek(self) -> str:
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def row(self, until: str) -> Node:
        parts: list[Node] = []
        while (token := self.peek()) != until:
            if token == "":
                raise self.error(f"{until} is missing")
            parts.append(self.scripted())
        self.take()
        self.check_brackets(parts)
        return parts[0] if len(parts) == 1 else Node("row", parts=tuple(parts))

    def check_brackets(self, parts: Sequence[Node]) -> None:
        """Raise an error unless every bracket of a row is closed in it; an interval may close [ by a round bracket."""
        opened: list[str] = []
        for part in map(_base, parts):
            if part.kind.endswith(Kind.OPEN):
                opened.append(part.text)
            elif part.kind.endswith(Kind.CLOSE):
                if not opened:
                    raise self.error(f"{part.text} is not opened")
                opened.pop()
        if opened:
            raise self.error(f"{opened[-1]} is not closed")

    def scripted(self) -> Node:
        base = self.atom()
        scripts: dict[str, Node] = {}
        while (mark := self.peek()) in ("^", "_", "'"):
            self.take()
            place = "_" if mark == "_" else "^"
            if place in scripts:
                raise self.error(f"two {mark} follow each other")
            scripts[place] = Node("sign", _PRIME) if mark == "'" else self.atom()
        if not scripts:
            return base
        none = Node("none")
        return Node("scripts", parts=(base, scripts.get("_", none), scripts.get("^", none)))

    def group(self) -> Node:
        if self.take() != "{":
            raise self.error("{ is missing after a command")
        return self.row(until="}")

    def words(self) -> str:
        if self.take() != "{":
            raise self.error("{ is missing after a command")
        end = self.tokens.index("}", self.at) if "}" in self.tokens[self.at :] else -1
        if end < 0:
            raise self.error("} is missing")
        words = "".join(self.tokens[self.at : end])
        self.at = end + 1
        return words

    def atom(self) -> Node:
        token = self.take()
        if token == "{":
            return self.row(until="}")
        if token.startswith("\\"):
            return self.command(token[1:])
        if token.isalpha() and token.isascii():
            return Node("letter", token)
        if token[:1].isdigit():
            return Node("number", token)
        if token in _OPERATORS and token:
            return Node("operator", _MINUS if token == "-" else token)
        if token and token in "()[],;.":
            return Node(_BRACKETS.get(token, "comma"), token)
        raise self.error(f"{token or 'the end'} is not known here")

    def command(self, name: str) -> Node:
        if name in SYMBOLS:
            sign, kind = SYMBOLS[name]
            return Node(kind.value, sign)
        if name in FUNCTIONS:
            return Node("function", name)
        if name in ("frac", "binom"):
            return Node(name, parts=(self.group(), self.group()))
        if name == "sqrt":
            if self.peek() == "[":
                self.take()
                degree = self.row(until="]")
                return Node("root", parts=(self.group(), degree))
            return Node("root", parts=(self.group(),))
        if name in ACCENTS:
            return Node("accent", ACCENTS[name], (self.group(),))
        if name in ALPHABETS:
            return Node("letter" if name != "mathbf" else "upright", lettered(name, self.words()))
        if name in ("text", "operatorname"):
            return Node("function" if name == "operatorname" else "words", self.words())
        if name in ("left", "right"):
            token = self.take()
            sign = DELIMITERS.get(token.removeprefix("\\"), token if token in "()[]" else "")
            if not sign:
                raise self.error(f"{token} is no delimiter")
            return Node("stretched open" if name == "left" else "stretched close", sign)
        raise self.error(f"\\{name} is not known")


_CALLED = {"letter", "function", "words", "scripts", "accent"}
_WHOLE = {*_CALLED, "number", "upright", Kind.SYMBOL.value}
_BEFORE_SIGNS = {Kind.OPEN.value, "stretched open", "comma", Kind.RELATION.value}


def plainly(node: Node) -> str:
    """A part of a formula in signs of Unicode, on one line."""
    if node.kind == "row":
        return _row(node.parts)
    if node.kind == "none":
        return ""
    if node.kind == "operator":
        return "-" if node.text == _MINUS else node.text
    if node.kind == "frac":
        return f"{_held(node.parts[0])}/{_held(node.parts[1])}"
    if node.kind == "binom":
        return f"binom({plainly(node.parts[0])}, {plainly(node.parts[1])})"
    if node.kind == "root":
        sign = "√" if len(node.parts) == 1 else {"3": "∛"}.get(plainly(node.parts[1]), f"root {node.parts[1].text} of ")
        return f"{sign}{_held(node.parts[0])}"
    if node.kind == "accent":
        return f"{_held(node.parts[0])}{node.text}"
    if node.kind == "scripts":
        base, below, above = node.parts
        under = f"_{_held(below, scripted=True)}" if below.kind != "none" else ""
        over = f"^{_held(above, scripted=True)}" if above.kind != "none" else ""
        over = plainly(above) if above.kind == "sign" else over
        return f"{plainly(base)}{under}{over}"
    return node.text


def _held(node: Node, *, scripted: bool = False) -> str:
    """A part within brackets, unless it is one sign; in a script a part that has scripts is in brackets too."""
    text = plainly(node)
    simple = node.kind in _WHOLE and not (scripted and node.kind == "scripts")
    return text if simple and " " not in text else f"({text})"


def _row(parts: Sequence[Node]) -> str:
    """Signs one after the other, with spaces around relations and between factors as a person would write them."""
    written, signed = "", False
    before: Node | None = None
    for node in parts:
        text = plainly(node)
        written += ("" if before is None or _tight(before, node, signed) else " ") + text
        signed = is_sign(node, before)
        before = node
    return written


def is_sign(node: Node, before: Node | None) -> bool:
    """Whether a part of a row is a unary minus."""
    if node.text != _MINUS:
        return False
    return before is None or before.kind in _BEFORE_SIGNS or (before.kind == "operator" and before.text in "=<>")


def _tight(before: Node, node: Node, signed: bool) -> bool:
    """Whether there is no space between two signs; `signed` says that the first is a unary minus."""
    if _base(before).kind.endswith(Kind.OPEN) or _base(node).kind.endswith(Kind.CLOSE) or signed:
        return True
    if node.kind == "comma" or node.text in ("/", "!") or before.text == "/":
        return True
    return node.text in ("(", "[") and before.kind in _CALLED


def _base(node: Node) -> Node:
    return node.parts[0] if node.kind == "scripts" else node
