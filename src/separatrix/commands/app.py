"""The command `separatrix` with all its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

import separatrix
from separatrix.commands.claims import claims
from separatrix.commands.doctor import doctor
from separatrix.commands.explore import explore
from separatrix.commands.plan import plan
from separatrix.commands.report import report
from separatrix.commands.reproduce import reproduce
from separatrix.commands.sat import sat
from separatrix.commands.separate import separate
from separatrix.commands.store import store_app
from separatrix.commands.sweep import sweep
from separatrix.commands.train.selection import train_app
from separatrix.commands.verify import verify

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=separatrix.__doc__)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"separatrix {separatrix.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options of `separatrix` itself; its help text is the first line of the package's docstring."""


app.command()(plan)
app.command()(doctor)
app.command()(verify)
app.add_typer(store_app, name="store")
app.add_typer(train_app, name="train")
app.command()(sweep)
app.command()(claims)
app.command()(reproduce)
app.command()(report)
app.command()(sat)
app.command()(separate)
app.command()(explore)
