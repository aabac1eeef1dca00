"""The commands `separatrix store ...`. Slow modules are imported when the command runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import RESULTS, StoreOption
from separatrix.lab.wording import many, printable

if TYPE_CHECKING:
    from separatrix.lab.store import Store

store_app = typer.Typer(no_args_is_help=True, help="List, check, export, clean and copy stores of results.")


class Status(StrEnum):
    """The status of a cell."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"


class Format(StrEnum):
    """The formats of an export."""

    CSV = "csv"
    JSON = "json"


ExperimentOption = Annotated[
    str | None, typer.Option("--experiment", help="Only the cells of this experiment.", metavar="NAME")
]


@store_app.command()
@in_a_sentence
def ls(
    store: StoreOption = RESULTS,
    experiment: ExperimentOption = None,
    status: Annotated[Status | None, typer.Option(help="Only the cells with this status.")] = None,
) -> None:
    """List the cells, and the number of cells by status."""
    from separatrix.lab.alive import living
    from separatrix.lab.store import Store

    with Store.open(store) as kept:
        alive = set(living(store))
        for record in kept.records(experiment, status and status.value):
            cell, took = record.cell, "" if record.seconds is None else f"{record.seconds:.3f} s"
            killed = record.run is not None and record.run not in alive
            note = "  (its run was killed; the next run repeats it)" if killed else ""
            head = f"{record.key[:12]}  {record.status:<7}  {took:>11}"
            line = f"{head}  {cell.experiment}  seed={cell.seed}  {cell.parameters}{note}"
            sys.stdout.write(f"{printable(line)}\n")
        for (name, what), count in kept.counts().items():
            typer.echo(f"{count:,} {what}: {printable(name)}", err=True)
        _say_left_out(kept)


def _say_left_out(kept: Store) -> int:
    """Print how many damaged rows were skipped, if any, and return their number."""
    if count := kept.left_out():
        typer.echo(
            f"{many(count, 'row')} of the store skipped because of damage: `separatrix store verify --store "
            f"{kept.folder}` lists them.",
            err=True,
        )
    return count


@store_app.command()
@in_a_sentence
def show(
    key: Annotated[str, typer.Argument(help="The key, or enough of its first digits.")], store: StoreOption = RESULTS
) -> None:
    """Show a cell: its parameters, its result and its provenance."""
    import json

    from separatrix.lab.export import moment
    from separatrix.lab.store import Store

    with Store.open(store) as kept:
        record = kept.record(key)
    typer.echo(f"key         {record.key}")
    typer.echo(f"experiment  {printable(record.cell.experiment)}, version {record.cell.version}")
    typer.echo(f"parameters  {record.cell.parameters}")
    typer.echo(f"seed        {record.cell.seed}")
    typer.echo(f"status      {record.status}")
    if record.finished is not None:
        typer.echo(f"finished    {moment(record.finished)}, after {record.seconds or 0.0:.3f} s")
    if record.origin is not None:
        for fact, value in json.loads(record.origin).items():
            typer.echo(printable(f"{fact:<10}  {value or 'unknown'}"))
    if record.result is not None:
        typer.echo(json.dumps(json.loads(record.result), indent=2))
    if record.traceback is not None:
        typer.echo(printable(record.traceback, keep="\n\t"))


@store_app.command()
@in_a_sentence
def export(
    format: Annotated[Format, typer.Option(help="A table in CSV, or everything in JSON.")] = Format.CSV,
    output: Annotated[Path | None, typer.Option(help="A file; the standard output if left out.")] = None,
    experiment: ExperimentOption = None,
    store: StoreOption = RESULTS,
) -> None:
    """Write the cells and their results as CSV or JSON; arrays are referenced by file name.

    Exits with 1 if damaged rows were skipped, and with 2, without writing anything, if the store file itself is
    damaged.
    """
    from separatrix.lab.export import as_csv, as_json
    from separatrix.lab.faults import plainly
    from separatrix.lab.store import Store

    write = as_csv if format is Format.CSV else as_json
    with Store.open(store) as kept:
        kept.check_file()
        if output is None:
            write(kept, sys.stdout, experiment)
        else:
            with plainly(output), output.open("w", encoding="utf-8", newline="") as stream:
                write(kept, stream, experiment)
        if _say_left_out(kept):
            raise typer.Exit(1)


@store_app.command()
@in_a_sentence
def verify(store: StoreOption = RESULTS) -> None:
    """Check all checksums of the store; exit with 1 if something is damaged."""
    from separatrix.lab.store import Store
    from separatrix.lab.upkeep import verify as check

    damages = 0
    for damage in check(store):
        damages += 1
        typer.echo(damage)
    if damages:
        typer.echo(
            f"{many(damages, 'damage')} found. Restore the store from a copy, or run `separatrix store gc --damaged "
            f"--store {store}`: it keeps every undamaged cell, and the next run recomputes the others.",
            err=True,
        )
        raise typer.Exit(1)
    with Store.open(store) as kept:
        typer.echo(f"{many(sum(kept.counts().values()), 'cell')}, all checksums match.")


@store_app.command()
@in_a_sentence
def gc(
    store: StoreOption = RESULTS,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also remove the cells that `verify` reports as damaged.")
    ] = False,
) -> None:
    """Remove unreferenced arrays and leftovers of killed runs; undamaged results are never removed."""
    from separatrix.lab.upkeep import gc as clear

    cleared = clear(store, damaged=damaged)
    if cleared.aside is not None:
        typer.echo(
            f"The file of the store was damaged, and is kept as {cleared.aside}. The new file has the "
            f"{many(cleared.salvaged, 'cell')} that could be read from it. Arrays that no cell names are kept until "
            "the next `separatrix store gc`."
        )
    removed = f"{many(cleared.files, 'file')} of {many(cleared.bytes, 'byte')}"
    typer.echo(f"Removed {removed}, and {many(cleared.cells, 'cell')}, damaged or left by killed runs.")


@store_app.command()
@in_a_sentence
def copy(
    folder: Annotated[Path, typer.Argument(help="The folder of the copy, which must not exist or be empty.")],
    store: StoreOption = RESULTS,
) -> None:
    """Copy the store and check each cell, also during a run; copying the files by hand can miss the write-ahead log."""
    from separatrix.lab.copying import copy as write
    from separatrix.lab.store import Store

    with Store.open(store) as kept:
        copied, damaged = write(kept, folder)
    typer.echo(f"Copied {many(copied, 'cell')} to {folder}.")
    if damaged:
        typer.echo(
            f"{many(damaged, 'cell')} skipped because of damage: `separatrix store verify` lists them.", err=True
        )
        raise typer.Exit(1)
