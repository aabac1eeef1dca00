"""The options that several commands have, and the workers that they choose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from separatrix.lab.executors import Crew

RESULTS = Path("results")
StoreOption = Annotated[Path, typer.Option("--store", help="The folder of results.", metavar="FOLDER")]
PaperOption = Annotated[str | None, typer.Option("--paper", help="Only this paper's claims.", metavar="NAME")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="How many local processes; as many as cores if left out.", metavar="N")
]
InProcessOption = Annotated[bool, typer.Option("--in-process", help="Run the cells here, one after the other.")]
DaskOption = Annotated[
    str | None, typer.Option("--dask", help="A Dask scheduler, tls://host:port; or `local`.", metavar="ADDRESS")
]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Run the cells that failed before again.")]


def choose_crew(workers: int | None, in_process: bool, dask: str | None) -> Crew:
    """Make the workers that the options ask for."""
    from separatrix.lab import executors

    if in_process:
        if workers is not None or dask is not None:
            raise ArgumentError("--in-process", expected="neither --workers nor --dask beside it", got="both")
        return executors.in_process()
    return executors.processes(workers) if dask is None else executors.dask_workers(dask, workers)
