"""Every verdict with its claim and what was found, as `claims` and `reproduce` print them."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from separatrix.claims.formulas import readable
from separatrix.lab.wording import duration, many

if TYPE_CHECKING:
    from separatrix.claims.verdicts import Judgement

_COLOURS = {"holds": "green", "fails as printed": "red", "undecided": "yellow"}
BRIEF_FROM = 6
"""From so many claims on, each is told in a few lines: the report has the rest."""


def print_table(judgements: Sequence[Judgement]) -> None:
    """Print every verdict and id whole, whatever the width; what was found goes below."""
    if not judgements:
        typer.echo("No claims are recorded yet: nothing of the papers has been reproduced by this command.")
        return
    from separatrix.claims.counts import count

    width = _width()
    lines = 3 if len(judgements) >= BRIEF_FROM else None
    margin = max(len(one.verdict.value) for one in judgements) + 2
    for one in judgements:
        verdict = one.verdict.value
        typer.echo(f"{typer.style(verdict, fg=_COLOURS.get(verdict))}{' ' * (margin - len(verdict))}{one.claim.id}")
        if told := _told(one):
            typer.echo(_fitted(told, width, margin, lines))
    typer.echo(str(count((one.claim, one.verdict) for one in judgements)))


def print_summary(judgements: Sequence[Judgement]) -> None:
    """Print what a screen holds of many verdicts: the counts of each paper, and every claim that does not hold.

    The report, and `separatrix claims`, have all of them with what was found.
    """
    from separatrix.claims import PAPERS
    from separatrix.claims.counts import count

    width = _width()
    margin = max(map(len, PAPERS)) + 2
    for paper in PAPERS:
        if ones := [one for one in judgements if one.claim.paper == paper]:
            told = f"{many(len(ones), 'claim')}: {count((one.claim, one.verdict) for one in ones).told}."
            typer.echo(f"{paper:{margin}}{_wrapped(told, width, margin).lstrip()}")
    for verdict in ("fails as printed", "not reproduced", "undecided"):
        ids = [one.claim.id for one in judgements if one.verdict.value == verdict]
        if ids:
            typer.echo(typer.style(f"{verdict}:", fg=_COLOURS.get(verdict)))
            typer.echo(_wrapped(", ".join(ids), width, margin))
    if any(one.verdict.value == "not run here" for one in judgements):
        typer.echo("Claims that are not run here wait for --profile full, which takes hours.")
    typer.echo(_wrapped(str(count((one.claim, one.verdict) for one in judgements)), width, 0))


def _told(one: Judgement) -> list[str]:
    """The statement, the cells, the time and the note; each number found; the code of a definition; earlier rules."""
    have = ""
    if one.keys:
        done = len(one.keys) - one.missing - one.failed
        have = f"{done:,} of {many(len(one.keys), 'cell')}, {duration(one.seconds)}."
    head = " ".join(text for text in (one.claim.says, have, one.finding.note) if text)
    numbers = [f"{name}: {_short(value)}." for name, value in one.finding.numbers.items()]
    more = [f"In the library: {', '.join(one.claim.defines)}."] if one.claim.defines else []
    more += [f"Changed after results had been seen: {' '.join(one.claim.history)}"] if one.claim.history else []
    return [readable(piece) for piece in (head, *numbers, *more) if piece]


def _fitted(pieces: Sequence[str], width: int, margin: int, lines: int | None) -> str:
    """As many whole pieces as there are lines for, the first at least, and how many more there are."""
    for kept in range(len(pieces), 0, -1):
        rest = len(pieces) - kept
        more = f"(The report has {many(rest, 'more number')}.)" if rest else ""
        text = _wrapped(" ".join([*pieces[:kept], more]).strip(), width, margin)
        if lines is None or text.count("\n") < lines or kept == 1:
            return text
    return ""


def _wrapped(text: str, width: int, margin: int) -> str:
    filler = textwrap.TextWrapper(width, " " * margin, " " * margin, break_long_words=False, break_on_hyphens=False)
    return filler.fill(text)


def _width() -> int:
    return max(60, min(shutil.get_terminal_size().columns, 140))


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
