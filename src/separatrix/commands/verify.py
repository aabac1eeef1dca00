"""The command `verify`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import whole_option


@in_a_sentence
def verify(
    file: Annotated[Path, typer.Argument(help="What Certified.save wrote.", metavar="FILE")],
    queries: Annotated[int, whole_option(help="How many queries to recompute.")] = 16,
) -> None:
    """Recompute queries of a saved call in ball arithmetic, and say whether its certificate held.

    Exits with 0 if it held, with 1 if it is broken, after a program that shows it, and with 2 if the file cannot be
    read or has nothing to recompute.
    """
    from separatrix.attention.checker.saved import load_call

    found = load_call(file).verify(queries)
    typer.echo(str(found))
    raise typer.Exit(0 if found.held else 1)
