"""The commands `separatrix store ...`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from separatrix.lab.console import RESULTS, StoreOption, in_a_sentence, many

store_app = typer.Typer(no_args_is_help=True, help="Look into the store of results, check it, clear it.")


class Status(StrEnum):
    """What a cell can be."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"


class Format(StrEnum):
    """What a store can be exported as."""

    CSV = "csv"
    JSON = "json"


ExperimentOption = Annotated[
    str | None, typer.Option("--experiment", help="Only the cells of this one.", metavar="NAME")
]


@store_app.command()
@in_a_sentence
def ls(
    store: StoreOption = RESULTS,
    experiment: ExperimentOption = None,
    status: Annotated[Status | None, typer.Option(help="Only the cells that are so.")] = None,
) -> None:
    """List the cells, a line each, and how many there are."""
    from separatrix.lab.alive import lives
    from separatrix.lab.store import Store

    with Store.open(store) as kept:
        alive = dict(lives(kept))
        lines = kept.ask(
            "SELECT key, status, seconds, experiment, seed, parameters, run, heartbeat FROM cells "
            "LEFT JOIN runs ON runs.id = cells.run "
            "WHERE (?1 IS NULL OR experiment = ?1) AND (?2 IS NULL OR status = ?2) ORDER BY cells.id",
            (experiment, status and status.value),
        )
        with closing(lines):
            for key, what, seconds, name, seed, parameters, run, heartbeat in lines:
                took = "" if seconds is None else f"{seconds:.3f} s"
                beat = ""
                if run is not None:
                    age = f"heartbeat {time.time() - heartbeat:.0f} s ago"
                    beat = (
                        f"  ({age})" if alive.get(run) else f"  ({age}; its run was killed, the next one does it again)"
                    )
                sys.stdout.write(f"{key[:12]}  {what:<7}  {took:>11}  {name}  seed={seed}  {parameters}{beat}\n")
        for (name, what), count in kept.counts().items():
            typer.echo(f"{count:,} {what}: {name}", err=True)


@store_app.command()
@in_a_sentence
def show(
    key: Annotated[str, typer.Argument(help="The key, or enough of its first digits.")], store: StoreOption = RESULTS
) -> None:
    """Show one cell: what it is, what came out, and where that comes from."""
    import json

    from separatrix.lab.export import moment
    from separatrix.lab.store import Store

    with Store.open(store) as kept:
        record = kept.record(key)
    typer.echo(f"key         {record.key}")
    typer.echo(f"experiment  {record.cell.experiment}, recipe version {record.cell.version}")
    typer.echo(f"parameters  {record.cell.parameters}")
    typer.echo(f"seed        {record.cell.seed}")
    typer.echo(f"status      {record.status}")
    if record.finished is not None:
        typer.echo(f"finished    {moment(record.finished)}, after {record.seconds:.3f} s")
    if record.origin is not None:
        for fact, value in json.loads(record.origin).items():
            typer.echo(f"{fact:<10}  {value or 'unknown'}")
    if record.result is not None:
        typer.echo(json.dumps(json.loads(record.result), indent=2))
    if record.traceback is not None:
        typer.echo(record.traceback)


@store_app.command()
@in_a_sentence
def export(
    format: Annotated[Format, typer.Option(help="A table, or everything.")] = Format.CSV,
    output: Annotated[Path | None, typer.Option(help="A file; the standard output if left out.")] = None,
    experiment: ExperimentOption = None,
    store: StoreOption = RESULTS,
) -> None:
    """Write the cells and their results as CSV or JSON; arrays are named by their files."""
    from separatrix.lab.export import as_csv, as_json
    from separatrix.lab.faults import plainly
    from separatrix.lab.store import Store

    write = as_csv if format is Format.CSV else as_json
    with Store.open(store) as kept:
        if output is None:
            write(kept, sys.stdout, experiment)
        else:
            with plainly(output), output.open("w", encoding="utf-8", newline="") as stream:
                write(kept, stream, experiment)


@store_app.command()
@in_a_sentence
def verify(store: StoreOption = RESULTS) -> None:
    """Read everything and check it against its hashes; exit with 1 if something is damaged."""
    from separatrix.lab.store import Store
    from separatrix.lab.upkeep import verify as check

    found = 0
    with Store.open(store) as kept:
        for damage in check(kept):
            found += 1
            typer.echo(f"{damage.key[:12]}: {damage.what}" if damage.key else damage.what)
        cells = sum(kept.counts().values())
    if found:
        typer.echo(
            f"{found:,} of {cells:,} cells and files are damaged. Bring them back from a copy, or run "
            "`separatrix store gc --damaged`: it forgets those cells, and the next run does them again.",
            err=True,
        )
        raise typer.Exit(1)
    typer.echo(f"{cells:,} cells, all as they were written.")


@store_app.command()
@in_a_sentence
def gc(
    store: StoreOption = RESULTS,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also forget the cells that `verify` finds wrong.")
    ] = False,
) -> None:
    """Remove arrays that no result names and what killed runs left; never a sound result."""
    from separatrix.lab.store import Store
    from separatrix.lab.upkeep import gc as clear

    Store.open(store).close()  # clearing a store that is not there must not make one
    with Store.create(store) as kept:
        cleared = clear(kept, damaged=damaged)
    removed = f"{many(cleared.files, 'file')} of {many(cleared.bytes, 'byte')}"
    typer.echo(f"Removed {removed}, forgot {many(cleared.cells, 'cell')} left by killed runs or damaged.")
