"""The formulas of the ledger: LaTeX that every page can typeset and a terminal can print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from separatrix import studies
from separatrix.claims.formulas import FormulaError, parse, pieces, readable
from separatrix.claims.ledger import claims
from separatrix.claims.symbols import SYMBOLS, lettered
from separatrix.report.highlights import HIGHLIGHTS
from separatrix.report.typeset import mathml

OLD_FORMS = re.compile(
    r"""[A-Za-z]_\w | \^ | [<>!]= | \(x\) | \bsqrt\b | \s[=<>]\s | \b[FcufED]_ | \w\[\w
    | \b(alpha|beta|gamma|delta|epsilon|eps|eta|mu|omega|phi|sigma|tau|poly|binom|QK|D0|D1)\b""",
    re.VERBOSE,
)
"""The formulas as they were written in plain text."""


def texts() -> Iterator[tuple[str, str]]:
    """The texts of the ledger, each with its claim."""
    studies.load()
    for claim in claims():
        yield claim.id, claim.says
        for erratum in claim.errata:
            yield from ((claim.id, text) for text in (erratum.printed, erratum.right, erratum.why))
        yield from ((claim.id, text) for text in (*claim.chosen, claim.alone))


def neighbours() -> Iterator[tuple[str, str]]:
    studies.load()
    return ((claim.id, other.says) for claim in claims() for other in claim.neighbours)


def other_texts() -> Iterator[tuple[str, str]]:
    """Other texts that pages typeset: earlier rules of checks, and the highlights of the report."""
    yield from ((claim.id, rule) for claim in claims() for rule in claim.history)
    yield from ((highlight.claim, highlight.says) for highlight in HIGHLIGHTS)


def formulas() -> Iterator[tuple[str, str]]:
    every = (*texts(), *neighbours(), *other_texts())
    return ((id, piece.text) for id, text in every for piece in pieces(text) if piece.is_formula)


def test_there_are_formulas() -> None:
    assert len(list(formulas())) > 500


def test_every_formula_is_typeset() -> None:
    """The formula becomes well-formed MathML without LaTeX, in which every construction has its parts."""
    parts = {"mfrac": {2}, "msub": {2}, "msup": {2}, "msubsup": {3}, "mroot": {2}, "mover": {2}}
    for id, latex in formulas():
        root = ElementTree.fromstring(f"<math>{mathml(latex)}</math>")
        for element in root.iter():
            assert len(element) in parts.get(element.tag, {len(element)}), f"{id}: {latex}"
            assert not set(element.text or "") & set("\\{}_^$") or element.text in ("{", "}", "~", "^"), (
                f"{id}: {latex}"
            )


def test_no_formula_contains_markdown() -> None:
    for id, latex in formulas():
        assert not re.search(r"[|*&`]|\\[^A-Za-z]|^\s|\s$", latex), f"{id}: {latex}"


def test_every_text_has_its_dollar_signs_in_pairs() -> None:
    for id, text in (*texts(), *neighbours(), *other_texts()):
        assert text.count("$") % 2 == 0, f"{id}: {text}"
        assert not re.search(r"\$\w", re.sub(r"\$[^$]*\$", "$", text)), (
            f"{id}: a word follows a formula at once: {text}"
        )


def test_no_formula_is_left_in_plain_text() -> None:
    for id, text in texts():
        words = "\n".join(piece.text for piece in pieces(text) if not piece.is_formula)
        match = OLD_FORMS.search(words)
        assert match is None, f"{id}: {match and match[0]!r} in {text}"


@pytest.mark.parametrize("old", ["A = exp(Q (K_1 (x) K_2)^T / d).", "m <= n", "at least sqrt(q)", "from D1", "c_exp"])
def test_the_old_forms_are_detected(old: str) -> None:
    assert OLD_FORMS.search(old)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"A = \exp(Q (K_1 \otimes K_2)^\top / d)", "A = exp(Q(K_1 ⊗ K_2)^\u22a4/d)"),
        (
            r"\lvert \langle e_i, e_v \rangle \rvert \le \frac{\delta \sqrt{q}}{1 - \delta}",
            "|⟨e_i, e_v⟩| ≤ (δ √q)/(1 - δ)",
        ),
        (r"\lbrace 1, \ldots, n \rbrace", "{1, …, n}"),
        (r"x_{j_1} = -1 - 2", "x_(j_1) = -1 - 2"),
        (r"\left( \frac{a}{b} \right)^2 + \sqrt[3]{x + 1}", "(a/b)^2 + ∛(x + 1)"),
        (r"F_{\text{exp}}(A, x)_{j_0}'", "F_exp(A, x)_(j_0)\N{PRIME}"),
        (r"\binom{T - 1}{q - 1} \tilde{t}", "binom(T - 1, q - 1) t\u0303"),
        (r"\mathbf{1}_n", "\U0001d7cf_n"),
    ],
)
def test_readable(latex: str, text: str) -> None:
    assert readable(f"At ${latex}$.") == f"At {text}."


@pytest.mark.parametrize(
    ("latex", "why"),
    [
        (r"\frac{a", "is missing"),
        (r"\frac a b", "{ is missing after a command"),
        (r"\nosuch", r"\\nosuch is not known"),
        (r"a | b", "| is not known here"),
        (r"a_1_2", "two _ follow each other"),
        (r"a^", "the end is not known"),
        (r"a}", "} is not known"),
        (r"\left< a", "< is no delimiter"),
        (r"\text{a", "} is missing"),
        (r"\left( a", "( is not closed"),
        (r"\lvert a + \frac{b \rvert}{c}", "| is not opened"),
        ("f(x", "( is not closed"),
        ("x^{2)}", ") is not opened"),
        ("", "empty"),
    ],
)
def test_untypesettable_formulas_are_refused(latex: str, why: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(why.replace("\\\\", "\\"))):
        parse(latex)


def test_a_single_dollar_sign_is_not_a_formula() -> None:
    assert readable("It costs $5.") == "It costs $5."


def test_signs_are_single_and_alphabets_have_their_letters() -> None:
    assert all(len(sign) == 1 for sign, _ in SYMBOLS.values())
    assert [lettered("mathbb", letter) for letter in "RE"] == ["\u211d", "\U0001d53c"]
    assert lettered("mathcal", "D") == "\U0001d49f"
    with pytest.raises(ValueError, match="single letters"):
        lettered("mathbb", "RE")
