"""The command `sweep`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence, tell_end
from separatrix.commands.options import (
    RESULTS,
    DaskOption,
    InProcessOption,
    RetryOption,
    StoreOption,
    WorkersOption,
    choose_crew,
)
from separatrix.errors import ArgumentError


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
    raise typer.Exit(tell_end(tally, len(grid), store))


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
