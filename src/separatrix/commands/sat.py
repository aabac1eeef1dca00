"""The command `sat`. Slow modules are imported when the command runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence


class Road(StrEnum):
    """The reduction of the formula to Gap-MaxIP."""

    DIRECT = "direct"
    PROTOCOL = "protocol"


@in_a_sentence
def sat(
    file: Annotated[Path, typer.Argument(help="The formula, in DIMACS.", metavar="FILE.cnf")],
    road: Annotated[
        Road, typer.Option(help="To Gap-MaxIP directly, or by the Merlin-Arthur protocol (small formulas only).")
    ] = Road.DIRECT,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 if satisfiable and 20 if not, as solvers do; else with 0.")
    ] = False,
) -> None:
    """Decide a small SAT formula by order-3 attention, and print the sizes at every step of the reduction.

    Prints the DIMACS lines `s SATISFIABLE` with `v` and the assignment, or `s UNSATISFIABLE`.
    """
    from separatrix.hardness.sat import satisfiable

    answer = satisfiable(file, road=road.value)
    for step in answer.steps:
        typer.echo(f"c {step.problem}: {step.sizes}")
    if answer.assignment is None:
        typer.echo("s UNSATISFIABLE")
        raise typer.Exit(20 if exit_code else 0)
    typer.echo("c the assignment was read from the attention output and checked")
    typer.echo("s SATISFIABLE")
    literals = [str(v if true else -v) for v, true in enumerate(answer.assignment, start=1)]
    for start in range(0, len(literals) + 1, 20):
        chunk = literals[start : start + 20]
        typer.echo(" ".join(["v", *chunk, *([] if start + 20 <= len(literals) else ["0"])]))
    raise typer.Exit(10 if exit_code else 0)
