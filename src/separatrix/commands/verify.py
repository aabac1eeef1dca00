"""The command `verify`. Slow modules are imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import whole_option


@in_a_sentence
def verify(
    file: Annotated[Path, typer.Argument(help="A file written by Certified.save.", metavar="FILE")],
    queries: Annotated[int, whole_option(help="The number of queries to recompute.")] = 16,
) -> None:
    """Recompute queries of a saved call in ball arithmetic, and print whether its certificate holds.

    Exits with 0 if it holds, with 1 if it is violated (and prints a program that shows it), and with 2 if the file
    cannot be read or has nothing to recompute.
    """
    from separatrix.attention.checker.saved import load_call

    verification = load_call(file).verify(queries)
    typer.echo(str(verification))
    raise typer.Exit(0 if verification.held else 1)
