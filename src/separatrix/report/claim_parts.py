"""The parts of a claim that the report and the explorer show alike: badge, statement, evidence, misprints, legend.

Each part is put together by the `make` that it is given: `markup.tag` writes HTML for the report, and the explorer has
one that makes its components.

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
from separatrix.report.typeset import Make, typeset

__all__ = ["Make", "badge", "called", "evidence", "legend", "misprint", "not_drawn", "spelled", "statement"]

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
    """Give the class of a verdict in the style sheets."""
    return verdict.value.replace(" ", "-")


def badge(verdict: Verdict, make: Make[Node]) -> Node:
    """Show a verdict in its colour, with a mark for those who do not see colours."""
    sign = make("span", MARKS[verdict], aria_hidden="true")
    return make("span", sign, f" {verdict}", class_=f"badge {css_class(verdict)}")


def called(claim: Claim) -> str:
    """Name a claim by its place in its paper, and by the part of what is said there."""
    part = claim.id.removeprefix(identity(claim.paper, claim.where)).strip("/").replace("-", " ")
    return f"{claim.where}: {part}" if part else claim.where


def spelled(value: object) -> str:
    """Write a number of the evidence in six digits.

    >>> spelled(1 / 3), spelled(12), spelled(Interval(0.5, 0.25, 1.0, 0.9))
    ('0.333333', '12', '0.5 (0.25 to 1 at 90%)')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def statement(one: Judgement, make: Make[Node]) -> list[Node]:
    """Show what the paper says, the note, choices, the code of a definition, machine-checked proofs, and old rules."""
    shown = [make("p", *typeset(one.claim.says, make), class_="statement")]
    if one.finding.note:
        shown.append(make("p", *typeset(one.finding.note, make), class_="note"))
    if one.claim.chosen:
        shown.append(make("p", "Settings that the paper does not print, and what we took for them:", class_="note"))
        shown.append(make("ul", *(make("li", *typeset(chosen, make)) for chosen in one.claim.chosen), class_="note"))
    if one.claim.defines:
        names = (make("li", make("code", name)) for name in one.claim.defines)
        shown.append(make("p", "What this defines is, in the library:", class_="note"))
        shown.append(make("ul", *names, class_="note"))
    if proofs := proofs_of(one.claim.id):
        shown.append(make("p", "Checked by the Coq proof assistant:", class_="note"))
        items = (
            make("li", *typeset(proof.proves, make), " ", make("code", f"{proof.theorem} ({proof.file})"))
            for proof in proofs
        )
        shown.append(make("ul", *items, class_="note"))
    if one.claim.history:
        shown.append(make("p", "Rules that were changed after results had been seen:", class_="note"))
        shown.append(make("ul", *(make("li", *typeset(rule, make)) for rule in one.claim.history), class_="note"))
    return shown


def evidence(numbers: Mapping[str, Any], make: Make[Node]) -> Node:
    """Show the numbers, with their intervals where they are estimates."""
    rows = []
    for name, value in numbers.items():
        middle, interval = spelled(value), ""
        if isinstance(value, Interval):
            middle = spelled(value.value)
            interval = str(value).partition(" ")[2].strip("()")
        kind = "text" if isinstance(value, str) else "number"
        cells = [make("th", *typeset(name, make), scope="row"), make("td", middle, class_=kind), make("td", interval)]
        rows.append(make("tr", *cells))
    table = make("table", make("caption", "Evidence"), make("tbody", *rows), class_="evidence")
    return make("div", table, class_="wide")


def misprint(erratum: Erratum, make: Make[Node]) -> Node:
    """Show where an erratum is, how much it matters, what is printed, what is right, and why."""
    pairs = [("Where", erratum.at)] if erratum.at else []
    pairs += [("Rank", erratum.rank), ("Printed", erratum.printed), ("Right", erratum.right), ("Why", erratum.why)]
    rows = (make("div", make("dt", name), make("dd", *typeset(text, make))) for name, text in pairs)
    return make("dl", *rows, class_="erratum")


def not_drawn(claim: Claim, make: Make[Node]) -> Node:
    """Say that the figures of a claim wait for its cells."""
    said = f"{many(len(claim.figures), 'figure')} will be drawn here once all of the cells are done."
    return make("p", said, class_="note")


def legend(make: Make[Node]) -> Node:
    """Say what each verdict means."""
    pairs = [make("div", make("dt", badge(verdict, make)), make("dd", says)) for verdict, says in MEANINGS.items()]
    return make("dl", *pairs, class_="legend")
