"""The commands `sweep`, `claims` and `reproduce`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from separatrix.errors import ArgumentError
from separatrix.lab.console import (
    RESULTS,
    DaskOption,
    InProcessOption,
    RetryOption,
    StoreOption,
    WorkersOption,
    choose_crew,
    in_a_sentence,
    last_words,
    many,
)

if TYPE_CHECKING:
    from separatrix.claims.verdicts import Judgement
    from separatrix.lab.store import Store

    ReportWriter = Callable[[Sequence[Judgement], Store], Path]


class Profile(StrEnum):
    """How much to run."""

    QUICK = "quick"
    FULL = "full"


PaperOption = Annotated[str | None, typer.Option("--paper", help="Only this paper's claims.", metavar="NAME")]


@in_a_sentence
def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep, in TOML: an experiment, a baseline, axes, seeds.")],
    store: StoreOption = RESULTS,
    workers: WorkersOption = None,
    in_process: InProcessOption = False,
    dask: DaskOption = None,
    retry_failed: RetryOption = False,
    module: Annotated[
        list[str] | None, typer.Option("--module", help="A module of your own experiments to import first.")
    ] = None,
) -> None:
    """Run a grid of cells; those that the store has are skipped, so a stopped sweep goes on where it was."""
    from separatrix.lab import driver, progress
    from separatrix.lab.store import Store
    from separatrix.lab.sweep import load as read

    for name in module or ():
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise ArgumentError(
                "--module", expected="a module that Python can import", got=f"{name} ({error})"
            ) from error
    _register_experiment_of(file)
    grid = read(file)
    crew = choose_crew(workers, in_process, dask)
    with Store.create(store) as kept, progress.on(len(grid)) as shown:
        tally = driver.run(kept, grid, crew, progress=shown, retry_failed=retry_failed)
    raise typer.Exit(last_words(tally, len(grid), store))


def _register_experiment_of(file: Path) -> None:
    """Import the paper that the experiment's name begins with; all of them only to say which experiments there are."""
    from separatrix.claims import PAPERS
    from separatrix.lab import registry, tomlfile
    from separatrix.studies import load

    wanted = tomlfile.load(file).get("experiment")
    if not isinstance(wanted, str):
        return  # which the reader of sweeps says
    for paper in (wanted.partition(".")[0], None):
        if not registry.known(wanted) and (paper is None or paper in PAPERS):
            load(paper)


@in_a_sentence
def claims(store: StoreOption = RESULTS, paper: PaperOption = None) -> None:
    """List the claims of the papers with the verdicts that the store supports; nothing is run."""
    from separatrix.claims import ledger
    from separatrix.claims.verdicts import judge
    from separatrix.lab.store import Store
    from separatrix.studies import load

    load()
    with Store.open(store) if (store / "store.sqlite").exists() else nullcontext() as kept:
        _print_table([judge(claim, kept) for claim in ledger.claims(paper)])


@in_a_sentence
def reproduce(
    profile: Annotated[Profile, typer.Option(help="Minutes, or the papers' own sizes.")] = Profile.QUICK,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this claim; may be repeated.", metavar="ID")
    ] = None,
    paper: PaperOption = None,
    store: StoreOption = RESULTS,
    workers: WorkersOption = None,
    in_process: InProcessOption = False,
    dask: DaskOption = None,
    retry_failed: RetryOption = False,
) -> None:
    """Run what is missing, print every verdict, write the report; fail if a verdict is not the recorded one."""
    from separatrix.claims import ledger, verdicts
    from separatrix.claims.reproduce import needed
    from separatrix.claims.reproduce import reproduce as do
    from separatrix.lab import progress
    from separatrix.lab.store import Store
    from separatrix.studies import load

    load()
    chosen = ledger.claims(paper, only or ())
    recorded = verdicts.expected()
    total = len(needed(chosen, profile.value))
    crew = choose_crew(workers, in_process, dask)
    with Store.create(store) as kept:
        with progress.on(total) as shown:
            done = do(chosen, kept, crew, profile=profile.value, progress=shown, retry_failed=retry_failed)
        code = last_words(done.tally, total, store)
        if done.tally.stopped:
            raise typer.Exit(code)
        _print_table(done.judgements)
        if write := report_writer():
            typer.echo(f"The report: {write(done.judgements, kept).absolute().as_uri()}")
    for problem in (one.problem for one in done.judgements if one.problem):
        typer.echo(problem, err=True)
    told = verdicts.differences(done.judgements, recorded, profile.value, everything=not (only or paper))
    for sentence in told:
        typer.echo(f"DIFFERS  {sentence}", err=True)
    raise typer.Exit(1 if told else code)


def report_writer() -> ReportWriter | None:
    """What writes the report: `write_report` of `separatrix.report`, where that is part of the installation."""
    if find_spec("separatrix.report") is None:
        return None
    writer: ReportWriter = import_module("separatrix.report").write_report
    return writer


_COLOURS = {"holds": "green", "fails as printed": "red", "undecided": "yellow"}
_BRIEF_FROM = 6
"""So many claims are told in a few lines each: the report has the rest."""


def _print_table(judgements: Sequence[Judgement]) -> None:
    """Every verdict and id whole, whatever the width: what was found goes below."""
    if not judgements:
        typer.echo("No claims are recorded yet: nothing of the papers has been reproduced by this command.")
        return
    width = max(60, min(shutil.get_terminal_size().columns, 140))
    lines = 3 if len(judgements) >= _BRIEF_FROM else None
    margin = max(len(one.verdict.value) for one in judgements) + 2
    for one in judgements:
        verdict = one.verdict.value
        typer.echo(f"{typer.style(verdict, fg=_COLOURS.get(verdict))}{' ' * (margin - len(verdict))}{one.claim.id}")
        typer.echo(_wrapped(_told(one), width, margin, lines))
    count = Counter(one.verdict.value for one in judgements)
    typer.echo(f"{many(len(judgements), 'claim')}: {', '.join(f'{n} {verdict}' for verdict, n in count.items())}.")


def _told(one: Judgement) -> str:
    """The cells, the time, and what was found."""
    from separatrix.lab.progress import spell

    have = f"{len(one.keys) - one.missing - one.failed:,} of {many(len(one.keys), 'cell')}, {spell(one.seconds)}."
    found = "; ".join(f"{name}: {_short(value)}" for name, value in one.finding.numbers.items())
    return " ".join(text for text in (have, f"{found}." if found else "", one.finding.note) if text)


def _wrapped(text: str, width: int, margin: int, lines: int | None) -> str:
    indent = " " * margin
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent, max_lines=lines, placeholder=" ..."
    )


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
