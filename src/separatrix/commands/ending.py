"""The final message and the exit code of a command: after an error, after Ctrl-C, and after a run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer

from separatrix.errors import SeparatrixError
from separatrix.lab.interrupts import INTERRUPTED, body, interrupted
from separatrix.lab.wording import duration, many, printable

if TYPE_CHECKING:
    from separatrix.lab.progress import Tally

P = ParamSpec("P")
R = TypeVar("R")


def in_a_sentence(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a `SeparatrixError` into its message and exit code 2, and Ctrl-C into exit code 130, without a traceback."""

    @wraps(command)
    def wrapped(*values: P.args, **named: P.kwargs) -> R:
        try:
            with body():
                return command(*values, **named)
        except typer.Exit:
            raise
        except BaseException as error:
            # A library that was interrupted by Ctrl-C may raise any error.
            if isinstance(error, KeyboardInterrupt) or interrupted():
                typer.echo(f"Stopped. Finished work is saved. To continue, {again()}", err=True)
                raise typer.Exit(INTERRUPTED) from error
            if isinstance(error, SeparatrixError):
                typer.echo("separatrix: " + printable(str(error), keep="\n"), err=True)
                raise typer.Exit(2) from error
            raise

    return wrapped


def again() -> str:
    """The instruction to rerun the current command."""
    return f"run the same command again: {shlex.join(['separatrix', *sys.argv[1:]])}"


def tell_end(tally: Tally, total: int, store: Path) -> int:
    """Print how a run of cells ended, and return the exit code."""
    saved = f"{tally.done + tally.skipped:,} of {many(total, 'cell')} {'is' if total == 1 else 'are'} done"
    if tally.stopped:
        typer.echo(f"Stopped. {saved} and saved in {store}. To continue, {again()}", err=True)
        return INTERRUPTED
    typer.echo(f"{saved}, {tally.done:,} of them now, in {duration(tally.seconds)}.", err=True)
    if tally.deaths:
        typer.echo(f"A worker died while running a cell {many(tally.deaths, 'time')}.", err=True)
    if failed := tally.failed + tally.failed_before:
        typer.echo(
            f"{many(failed, 'cell')} failed, {tally.failed_before:,} of them in an earlier run. `separatrix store ls "
            f"--status failed --store {store}` lists them, `separatrix store show KEY --store {store}` says why, "
            "--retry-failed tries them again.",
            err=True,
        )
        return 1
    return 0
