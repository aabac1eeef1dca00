"""The parts of a claim that the report and the explorer share: badge, statement, evidence, misprints, legend.

The argument `make` creates elements: `markup.tag` writes HTML for the report, and the explorer passes a function that
creates Dash components.

>>> from separatrix.report.markup import tag
>>> evidence({"largest error": 0.25}, tag)[:61]
'<div class="wide"><table class="evidence"><caption>Evidence</'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from separatrix.claims.ledger import MEANINGS, Claim, Erratum, Interval, Verdict, identity
from separatrix.claims.machine_checked import proofs_of
from separatrix.claims.verdicts import Judgement
from separatrix.lab.wording import many
from separatrix.report.typeset import Make, typeset, with_formulas

MARKS = {
    Verdict.PROVED: "∎",
    Verdict.DEFINED: "≔",
    Verdict.HOLDS: "✓",
    Verdict.HOLDS_CORRECTED: "✎",
    Verdict.HOLDS_ASYMPTOTICALLY: "≈",
    Verdict.HOLDS_ASYMPTOTICALLY_CORRECTED: "≈✎",
    Verdict.FAILS_AS_PRINTED: "✗",
    Verdict.NOT_REPRODUCED: "≠",
    Verdict.ILLUSTRATED: "◇",
    Verdict.UNDECIDED: "?",
    Verdict.NOT_RUN: "○",
}

Node = TypeVar("Node")


def css_class(verdict: Verdict) -> str:
    """The CSS class of a verdict."""
    return verdict.value.replace(" ", "-")


def badge(verdict: Verdict, make: Make[Node]) -> Node:
    """A verdict in its colour, with a symbol for readers who do not see colours."""
    sign = make("span", MARKS[verdict], aria_hidden="true")
    return make("span", sign, f" {verdict}", class_=f"badge {css_class(verdict)}")


def called(claim: Claim) -> str:
    """The name of a claim: its place in the paper, and the part of the statement if there are several."""
    part = claim.id.removeprefix(identity(claim.paper, claim.where)).strip("/").replace("-", " ")
    return f"{claim.where}: {part}" if part else claim.where


def spelled(value: object) -> str:
    """A number of the evidence as text, with six digits.

    >>> spelled(1 / 3), spelled(12), spelled(Interval(0.5, 0.25, 1.0, 0.9))
    ('0.333333', '12', '0.5 (0.25 to 1 at 90%)')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def statement(judgement: Judgement, make: Make[Node]) -> list[Node]:
    """The statement of a claim, its note, settings, definitions, machine-checked proofs and earlier rules."""
    claim = judgement.claim
    parts = [make("p", *typeset(claim.says, make), class_="statement")]
    if judgement.finding.note:
        parts.append(make("p", *typeset(judgement.finding.note, make), class_="note"))
    lists: dict[str, list[list[Node | str]]] = {
        "Settings that the paper does not give, and the values that we chose:": [
            typeset(setting, make) for setting in claim.chosen
        ],
        "Implemented in the library by:": [[make("code", name)] for name in claim.defines],
        "Checked by the Coq proof assistant:": [
            [*typeset(proof.proves, make), " ", make("code", f"{proof.theorem} ({proof.file})")]
            for proof in proofs_of(claim.id)
        ],
        "Rules that were changed after results had been seen:": [typeset(rule, make) for rule in claim.history],
    }
    for title, items in lists.items():
        if items:
            parts.append(make("p", title, class_="note"))
            parts.append(make("ul", *(make("li", *item) for item in items), class_="note"))
    return parts


def evidence(numbers: Mapping[str, Any], make: Make[Node]) -> Node:
    """A table of the numbers, with confidence intervals for estimates."""
    rows = []
    for name, value in numbers.items():
        middle, interval = spelled(value), ""
        if isinstance(value, Interval):
            middle = spelled(value.value)
            interval = str(value).partition(" ")[2].strip("()")
        kind = "text" if isinstance(value, str) else "number"
        label = make("th", *typeset(with_formulas(name), make), scope="row")
        number = make("td", *typeset(with_formulas(middle), make), class_=kind)
        rows.append(make("tr", label, number, make("td", interval)))
    table = make("table", make("caption", "Evidence"), make("tbody", *rows), class_="evidence")
    return make("div", table, class_="wide")


def misprint(erratum: Erratum, make: Make[Node]) -> Node:
    """An erratum: its place, its rank, the printed text, the correction, and the reason."""
    pairs = [("Where", erratum.at)] if erratum.at else []
    pairs += [("Rank", erratum.rank), ("Printed", erratum.printed), ("Right", erratum.right), ("Why", erratum.why)]
    rows = (make("div", make("dt", name), make("dd", *typeset(text, make))) for name, text in pairs)
    return make("dl", *rows, class_="erratum")


def not_drawn(claim: Claim, make: Make[Node]) -> Node:
    """A note that the figures of a claim need all of its cells."""
    sentence = f"{many(len(claim.figures), 'figure')} will be drawn here once all of the cells are done."
    return make("p", sentence, class_="note")


def legend(make: Make[Node]) -> Node:
    """A list of the verdicts and their meanings."""
    pairs = [make("div", make("dt", badge(verdict, make)), make("dd", says)) for verdict, says in MEANINGS.items()]
    return make("dl", *pairs, class_="legend")
