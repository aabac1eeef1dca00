"""The command `sweep`. Slow modules are imported when the command runs."""

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
    """Run a grid of cells, except those that the store has, so that a stopped sweep can be continued."""
    from separatrix.lab import driver, progress
    from separatrix.lab.store import Store
    from separatrix.lab.sweep import load as read

    for name in module or ():
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise ArgumentError(
                "--module", expected="a module that Python can import", got=f"{name!r} ({error})"
            ) from error
    _register_experiment_of(file)
    grid = read(file)
    crew = choose_crew(workers, in_process, dask)
    with Store.create(store) as kept, progress.on(len(grid)) as display:
        tally = driver.run(kept, grid, crew, progress=display, retry_failed=retry_failed)
    raise typer.Exit(tell_end(tally, len(grid), store))


def _register_experiment_of(file: Path) -> None:
    """Import the claims of the paper that the experiment's name begins with, or of all papers for an unknown name."""
    from separatrix.claims import PAPERS
    from separatrix.lab import registry, tomlfile
    from separatrix.studies import load

    wanted = tomlfile.load(file).get("experiment")
    if not isinstance(wanted, str):
        return  # the parser of sweeps raises an error for unknown experiments
    for paper in (wanted.partition(".")[0], None):
        if not registry.known(wanted) and (paper is None or paper in PAPERS):
            load(paper)
