r"""Formulas as MathML, which browsers render without a script.

>>> mathml(r"\frac{1}{n} \le \delta")
'<mfrac><mn>1</mn><mi>n</mi></mfrac><mo>≤</mo><mi>δ</mi>'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from separatrix.claims.formulas import Node, is_sign, parse, pieces
from separatrix.claims.symbols import Kind
from separatrix.report.markup import Html, join, tag

_ELEMENTS = {
    "letter": "mi",
    "function": "mi",
    "number": "mn",
    "words": "mtext",
    "comma": "mo",
    "operator": "mo",
    Kind.SYMBOL: "mi",
    Kind.RELATION: "mo",
    Kind.BINARY: "mo",
    Kind.LARGE: "mo",
}
_FACTORS = {"letter", "number", "upright", "scripts", "accent", "root", "frac", Kind.CLOSE, "stretched close"}
_ACCENTS = {"\u0303": "~", "\u0302": "^", "\u0304": "¯"}
Made = TypeVar("Made")


class Make(Protocol[Made]):
    """Creates an element from its name, its children and its attributes, as `markup.tag` does.

    The child of an element ``math`` is MathML.
    """

    def __call__(self, name: str, /, *children: Made | str | None, **attributes: str | int | bool | None) -> Made: ...


def typeset(text: str, make: Make[Made]) -> list[Made | str]:
    """The parts of a text: words, and formulas as ``math`` elements.

    A formula and the punctuation after it are in one element, so that a line never begins with the punctuation.
    """
    parts: list[Made | str] = []
    formula: Made | None = None
    for piece in pieces(text):
        rest = piece.text
        if formula is not None:
            mark = _PUNCTUATION.match("" if piece.is_formula else rest)
            parts.append(make("span", formula, mark[0], class_="unbroken") if mark else formula)
            rest = rest[mark.end() :] if mark else rest
        formula = make("math", mathml(piece.text)) if piece.is_formula else None
        if not piece.is_formula and rest:
            parts.append(rest)
    return parts if formula is None else [*parts, formula]


def with_formulas(text: str) -> str:
    r"""A caption or a number, with the letters and powers of its plain parts converted to LaTeX between dollar signs.

    >>> with_formulas("Softmax on D1 is below delta / n from n = 10^28 on, against B / (ln n)^(1/k).")
    'Softmax on $D_1$ is below $\\delta / n$ from $n = 10^{28}$ on, against $B / (\\ln n)^{1/k}$.'
    """
    parts = [f"${piece.text}$" if piece.is_formula else _plain_with_formulas(piece.text) for piece in pieces(text)]
    return _EQUALS_NUMBER.sub(r"\1$", re.sub(r"\$( / | = | )\$", r"\1", "".join(parts)))


def _plain_with_formulas(text: str) -> str:
    for ascii_sign, sign in ((">=", "≥"), ("<=", "≤"), ("log10 ", "log₁₀ ")):
        text = text.replace(ascii_sign, sign)
    text = re.sub(r"(?<=\d) x (?=\d)", " \N{MULTIPLICATION SIGN} ", text)
    return _SCIENTIFIC.sub(_scientific, _LETTERS.sub(_formula, text))


def _formula(match: re.Match[str]) -> str:
    base, index, power = match["base"], match["digit"] or match["letter"], match["power"]
    base = {"(ln n)": r"(\ln n)", "eps": r"\epsilon"}.get(base, f"\\{base}" if base in _GREEK else base)
    raised = "" if power is None else f"^{{{power.removeprefix('(').removesuffix(')')}}}"
    return f"${base}{'' if index is None else f'_{index}'}{raised}$"


def _scientific(match: re.Match[str]) -> str:
    factor = "" if match["factor"] == "1" else rf"{match['factor']} \cdot "
    return f"${factor}10^{{{int(match['power'])}}}$"


_GREEK = ("beta", "delta", "epsilon", "eps", "eta", "tau")
_LETTERS = re.compile(
    r"(?<![\w.'^-])(?<![Ss]etting )(?<!Appendix )"
    r"(?P<base>\(ln n\)|\d+(?=\^)|[a-zA-Z](?=[\^_])|[b-rt-zBCKLMNPQRTUVWX](?![\w':-])"
    rf"|(?<!\d )s(?![\w'-])|[aDT](?=\d)|a(?= = )|{'|'.join(_GREEK)})(?:_?(?P<digit>\d)|_(?P<letter>[a-zA-Z]))?"
    r"(?:\^(?P<power>\([^()]+\)|-?[\d.]*\d|\w))?(?![\w'^]|[.-]\w)"
)
_EQUALS_NUMBER = re.compile(r"\$( = -?\d+(?:\.\d+)?(?:/\d+)?)(?![\w%]|[.,/]\d)")
_SCIENTIFIC = re.compile(r"(?<![\w.])(?P<factor>\d+(?:\.\d+)?)e(?P<power>[+-]?\d+)(?![\w.]*\w)")
_PUNCTUATION = re.compile(r"[.,;:!?)\]]+")
_OPENING, _CLOSING = "([{⌈⌊⟨", ")]}⌉⌋⟩"


def mathml(latex: str) -> Html:
    """The content of the ``math`` element of a formula."""
    return _written(parse(latex))


def _written(node: Node) -> Html:
    if node.kind == "row":
        return _row(node.parts)
    parts = [_one(part) for part in node.parts]
    if node.kind == "frac":
        return tag("mfrac", *parts)
    if node.kind == "binom":
        return tag("mrow", tag("mo", "("), tag("mfrac", *parts, linethickness="0"), tag("mo", ")"))
    if node.kind == "root":
        return tag("msqrt", *parts) if len(parts) == 1 else tag("mroot", *parts)
    if node.kind == "accent":
        return tag("mover", *parts, tag("mo", _ACCENTS[node.text], stretchy="false"), accent="true")
    if node.kind == "scripts":
        return _scripts(node, parts)
    if node.kind.endswith((Kind.OPEN, Kind.CLOSE)):
        opens = node.kind.endswith(Kind.OPEN)
        # Browsers know the form of a bracket, and stretch it unless ``stretchy`` is false.
        form = None if node.text in (_OPENING if opens else _CLOSING) else "prefix" if opens else "postfix"
        stretched = node.kind.startswith("stretched")
        return tag("mo", node.text, form=form, stretchy=None if stretched and form is None else str(stretched).lower())
    if node.kind == "upright":
        return tag("mi", node.text, mathvariant="normal")
    if node.kind == Kind.SPACE:
        return tag("mspace", width="1em")
    if node.kind == "sign":
        return tag("mo", node.text)
    if node.text == "/":
        return tag("mo", "/", lspace="0", rspace="0")
    return tag(_ELEMENTS[node.kind], node.text)


def _row(nodes: Sequence[Node]) -> Html:
    """The elements of a row; a function has a space before it, and after it unless a bracket follows.

    A unary minus has no space after it.
    """
    elements: list[Html] = []
    before: Node | None = None
    for node in nodes:
        if before is not None and (
            (_is_function(before) and not node.kind.endswith((Kind.OPEN, Kind.CLOSE, "comma", "operator")))
            or (_is_function(node) and before.kind in _FACTORS)
        ):
            elements.append(tag("mspace", width="0.17em"))
        elements.append(tag("mo", node.text, form="prefix") if is_sign(node, before) else _one(node))
        before = node
    return join(elements)


def _is_function(node: Node) -> bool:
    return node.kind == "function" or (node.kind == "scripts" and node.parts[0].kind == "function")


def _scripts(node: Node, parts: list[Html]) -> Html:
    base, below, above = parts
    if node.parts[1].kind == "none":
        return tag("msup", base, above)
    return tag("msub", base, below) if node.parts[2].kind == "none" else tag("msubsup", base, below, above)


def _one(node: Node) -> Html:
    """A part as a single element, as fractions, roots and scripts of MathML require."""
    if node.kind == "none":
        return Html("")
    return tag("mrow", _written(node)) if node.kind == "row" else _written(node)
