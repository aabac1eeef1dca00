"""The tables of claims, verdicts and evidence that `claims` and `reproduce` print."""

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
"""With at least this many claims, each is limited to a few lines; the report has the rest."""


def print_table(judgements: Sequence[Judgement]) -> None:
    """Print the verdict and the id of every claim, which are never truncated, and the evidence below them."""
    if not judgements:
        typer.echo("No claims are recorded yet: nothing of the papers has been reproduced by this command.")
        return
    from separatrix.claims.counts import count

    width = _width()
    lines = 3 if len(judgements) >= BRIEF_FROM else None
    margin = max(len(judgement.verdict.value) for judgement in judgements) + 2
    is_any_shortened = False
    for judgement in judgements:
        verdict = judgement.verdict.value
        typer.echo(
            f"{typer.style(verdict, fg=_COLOURS.get(verdict))}{' ' * (margin - len(verdict))}{judgement.claim.id}"
        )
        text, is_shortened = _fitted(_parts(judgement), width, margin, lines)
        is_any_shortened |= is_shortened
        typer.echo(text)
    if is_any_shortened:
        typer.echo(_wrapped("--place or --text shows fewer claims in full, for example --text lemma-e.1.", width, 0))
    typer.echo(str(count((judgement.claim, judgement.verdict) for judgement in judgements)))


def print_summary(judgements: Sequence[Judgement]) -> None:
    """Print a summary of many verdicts: the counts of each paper, and every claim that does not hold.

    The report and `separatrix claims` have all claims with their evidence.
    """
    from separatrix.claims import PAPERS
    from separatrix.claims.counts import count

    width = _width()
    margin = max(map(len, PAPERS)) + 2
    for paper in PAPERS:
        if of_paper := [judgement for judgement in judgements if judgement.claim.paper == paper]:
            verdicts = count((judgement.claim, judgement.verdict) for judgement in of_paper).summary
            counts = f"{many(len(of_paper), 'claim')}: {verdicts}."
            typer.echo(f"{paper:{margin}}{_wrapped(counts, width, margin).lstrip()}")
    for verdict in ("fails as printed", "not reproduced", "undecided"):
        ids = [judgement.claim.id for judgement in judgements if judgement.verdict.value == verdict]
        if ids:
            typer.echo(typer.style(f"{verdict}:", fg=_COLOURS.get(verdict)))
            typer.echo(_wrapped(", ".join(ids), width, margin))
    if any(judgement.verdict.value == "not run here" for judgement in judgements):
        typer.echo("Claims that were not run here need --profile full, which takes hours.")
    typer.echo(_wrapped(str(count((judgement.claim, judgement.verdict) for judgement in judgements)), width, 0))


def _parts(judgement: Judgement) -> tuple[str, list[str], list[str]]:
    """The statement with cells, time and note; the numbers of the evidence; definitions and earlier rules."""
    have = ""
    if judgement.keys:
        done = len(judgement.keys) - judgement.missing - judgement.failed
        have = f"{done:,} of {many(len(judgement.keys), 'cell')}, {duration(judgement.seconds)}."
    head = " ".join(text for text in (judgement.claim.says, have, judgement.finding.note) if text)
    numbers = [f"{name}: {_short(value)}." for name, value in judgement.finding.numbers.items()]
    more = [f"In the library: {', '.join(judgement.claim.defines)}."] if judgement.claim.defines else []
    more += (
        [f"Changed after results had been seen: {' '.join(judgement.claim.history)}"] if judgement.claim.history else []
    )
    return readable(head), [readable(number) for number in numbers], [readable(text) for text in more]


def _fitted(parts: tuple[str, list[str], list[str]], width: int, margin: int, lines: int | None) -> tuple[str, bool]:
    """The texts that fit in the lines, at least the first, and whether others are omitted.

    A note says how many numbers are omitted; the report has all of them. Omitted definitions and earlier rules have no
    note here, since `separatrix claims` prints them when fewer claims are requested.
    """
    head, numbers, details = parts
    pieces = [head, *numbers, *details]
    for kept in range(len(pieces), 0, -1):
        hidden_numbers = max(len(numbers) + 1 - kept, 0)
        more = f"(The report has {many(hidden_numbers, 'more number')}.)" if hidden_numbers else ""
        text = _wrapped(" ".join([*pieces[:kept], more]).strip(), width, margin)
        if lines is None or text.count("\n") < lines or kept == 1:
            return text, kept < len(pieces)
    return "", False


def _wrapped(text: str, width: int, margin: int) -> str:
    filler = textwrap.TextWrapper(width, " " * margin, " " * margin, break_long_words=False, break_on_hyphens=False)
    return filler.fill(text)


def _width() -> int:
    return max(60, min(shutil.get_terminal_size().columns, 140))


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
