"""The commands `sweep`, `claims` and `reproduce`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

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
    from separatrix.claims import load
    from separatrix.lab import driver, progress
    from separatrix.lab.store import Store
    from separatrix.lab.sweep import load as read

    load()
    for name in module or ():
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise ArgumentError(
                "--module", expected="a module that Python can import", got=f"{name} ({error})"
            ) from error
    grid = read(file)
    crew = choose_crew(workers, in_process, dask)
    with Store.create(store) as kept, progress.on(len(grid)) as shown:
        tally = driver.run(kept, grid, crew, progress=shown, retry_failed=retry_failed)
    raise typer.Exit(last_words(tally, len(grid), store))


@in_a_sentence
def claims(store: StoreOption = RESULTS, paper: PaperOption = None) -> None:
    """List the claims of the papers with the verdicts that the store supports; nothing is run."""
    from separatrix.claims import ledger, load
    from separatrix.claims.verdicts import judge
    from separatrix.lab.store import Store

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
    from separatrix.claims import ledger, load, verdicts
    from separatrix.claims.reproduce import needed
    from separatrix.claims.reproduce import reproduce as do
    from separatrix.lab import progress
    from separatrix.lab.store import Store

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


def _print_table(judgements: Sequence[Judgement]) -> None:
    from rich.console import Console
    from rich.table import Table

    from separatrix.lab.progress import spell

    if not judgements:
        typer.echo("No claims are recorded yet: nothing of the papers has been reproduced by this command.")
        return
    table = Table("claim", "verdict", "found", "cells", "time", title="claims", title_justify="left")
    for one in judgements:
        found = "; ".join([f"{name}: {_short(value)}" for name, value in one.finding.numbers.items()])
        note = " ".join(text for text in (found, one.finding.note) if text)
        have = f"{len(one.keys) - one.missing - one.failed:,}/{len(one.keys):,}"
        table.add_row(one.claim.id, one.verdict.value, note, have, spell(one.seconds))
    Console().print(table, markup=False)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
