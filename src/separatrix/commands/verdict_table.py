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
_BRIEF_FROM = 6
"""With more claims than this, each is told in a few lines: the report has the rest."""


def print_table(judgements: Sequence[Judgement]) -> None:
    """Print every verdict and id whole, whatever the width; what was found goes below."""
    if not judgements:
        typer.echo("No claims are recorded yet: nothing of the papers has been reproduced by this command.")
        return
    from separatrix.claims.counts import count

    width = max(60, min(shutil.get_terminal_size().columns, 140))
    lines = 3 if len(judgements) >= _BRIEF_FROM else None
    margin = max(len(one.verdict.value) for one in judgements) + 2
    for one in judgements:
        verdict = one.verdict.value
        typer.echo(f"{typer.style(verdict, fg=_COLOURS.get(verdict))}{' ' * (margin - len(verdict))}{one.claim.id}")
        typer.echo(_wrapped(_told(one), width, margin, lines))
    typer.echo(str(count((one.claim, one.verdict) for one in judgements)))


def _told(one: Judgement) -> str:
    """Tell the cells, the time, and what was found."""
    have = ""
    if one.keys:
        done = len(one.keys) - one.missing - one.failed
        have = f"{done:,} of {many(len(one.keys), 'cell')}, {duration(one.seconds)}."
    found = "; ".join(f"{name}: {_short(value)}" for name, value in one.finding.numbers.items())
    return readable(" ".join(text for text in (have, f"{found}." if found else "", one.finding.note) if text))


def _wrapped(text: str, width: int, margin: int, lines: int | None) -> str:
    indent = " " * margin
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent, max_lines=lines, placeholder=" ..."
    )


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
