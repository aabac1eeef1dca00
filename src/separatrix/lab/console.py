"""What the commands of the lab share: options, the choice of workers, and the last words of a run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.lab.interrupts import INTERRUPTED, body, interrupted

if TYPE_CHECKING:
    from separatrix.lab.executors import Crew
    from separatrix.lab.progress import Tally

P = ParamSpec("P")
R = TypeVar("R")

RESULTS = Path("results")
StoreOption = Annotated[Path, typer.Option("--store", help="The folder of results.", metavar="FOLDER")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="How many local processes; as many as cores if left out.", metavar="N")
]
InProcessOption = Annotated[bool, typer.Option("--in-process", help="Run the cells here, one after the other.")]
DaskOption = Annotated[
    str | None, typer.Option("--dask", help="A Dask scheduler, tls://host:port; or `local`.", metavar="ADDRESS")
]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Run the cells that failed before again.")]


def in_a_sentence(command: Callable[P, R]) -> Callable[P, R]:
    """Let a command end with the sentence of its error and exit code 2, or 130 after Ctrl-C, not with a traceback."""

    @wraps(command)
    def wrapped(*values: P.args, **named: P.kwargs) -> R:
        try:
            with body():
                return command(*values, **named)
        except typer.Exit:
            raise
        except BaseException as error:
            # Whatever came out of a library that was interrupted, it was Ctrl-C.
            if isinstance(error, KeyboardInterrupt) or interrupted():
                typer.echo(f"Stopped. What is done is kept. To go on, {_again()}", err=True)
                raise typer.Exit(INTERRUPTED) from error
            if isinstance(error, SeparatrixError):
                typer.echo(f"separatrix: {error}", err=True)
                raise typer.Exit(2) from error
            raise

    return wrapped


def choose_crew(workers: int | None, in_process: bool, dask: str | None) -> Crew:
    """The workers that the options ask for."""
    from separatrix.lab import executors

    if in_process:
        if workers is not None or dask is not None:
            raise ArgumentError("--in-process", expected="neither --workers nor --dask beside it", got="both")
        return executors.in_process()
    return executors.processes(workers) if dask is None else executors.dask_workers(dask, workers)


def many(count: int, word: str, words: str | None = None) -> str:
    """A number of things; `words` where an s does not make them many.

    >>> many(1, "cell"), many(1200, "cell"), many(2, "erratum", "errata")
    ('1 cell', '1,200 cells', '2 errata')
    """
    return f"{count:,} {word if count == 1 else words or f'{word}s'}"


def _again() -> str:
    return f"run the same command again: {shlex.join(['separatrix', *sys.argv[1:]])}"


def last_words(tally: Tally, total: int, store: Path) -> int:
    """Say how a run ended; the answer is the exit code."""
    from separatrix.lab.progress import spell

    have = tally.done + tally.skipped
    if tally.stopped:
        typer.echo(
            f"Stopped. {have:,} of {total:,} cells are done and kept in {store}. To go on, {_again()}",
            err=True,
        )
        return INTERRUPTED
    typer.echo(
        f"{have:,} of {total:,} cells are done, {tally.done:,} of them now, in {spell(tally.seconds)}.", err=True
    )
    if tally.deaths:
        typer.echo(f"A worker died under a cell {many(tally.deaths, 'time')}.", err=True)
    if failed := tally.failed + tally.failed_before:
        typer.echo(
            f"{many(failed, 'cell')} failed, {tally.failed_before:,} of them in an earlier run. `separatrix store ls "
            f"--status failed --store {store}` lists them, `separatrix store show KEY --store {store}` says why, "
            "--retry-failed tries them again.",
            err=True,
        )
        return 1
    return 0
