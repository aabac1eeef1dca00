"""The options that several commands share, and the executors that they choose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from separatrix.errors import ArgumentError
from separatrix.written_numbers import number_in

if TYPE_CHECKING:
    from separatrix.lab.executors import Crew

RESULTS = Path("results")
StoreOption = Annotated[Path, typer.Option("--store", help="The folder of results.", metavar="FOLDER")]
PaperOption = Annotated[str | None, typer.Option("--paper", help="Only this paper's claims.", metavar="NAME")]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", help="The number of local processes; by default the number of cores.", metavar="N"),
]
InProcessOption = Annotated[
    bool, typer.Option("--in-process", help="Run the cells in this process, one after the other.")
]
DaskOption = Annotated[
    str | None, typer.Option("--dask", help="A Dask scheduler, tls://host:port; or `local`.", metavar="ADDRESS")
]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Run the cells that failed before again.")]


def whole_number(text: str | int) -> int:
    """Parse an integer that is written as 1000000, 1e6 or 10^6.

    >>> whole_number("1e6"), whole_number("10^6"), whole_number(7)
    (1000000, 1000000, 7)
    """
    if isinstance(text, int):  # the default of an option
        return text
    value = number_in(text)
    if value is None or value != value.to_integral_value():
        raise typer.BadParameter(f"expected a whole number, such as 1000, 1e6 or 10^6, and got {text!r}.")
    return int(value)


def whole_option(*names: str, help: str) -> Any:
    """A typer option for integers such as 1000, 1e6 or 10^6."""
    return typer.Option(*names, help=help, parser=whole_number, metavar="N")


def choose_crew(workers: int | None, in_process: bool, dask: str | None) -> Crew:
    """The executor that the options choose."""
    from separatrix.lab import executors

    if in_process:
        if workers is not None or dask is not None:
            raise ArgumentError("--in-process", expected="neither --workers nor --dask together with it", got="both")
        return executors.in_process()
    return executors.processes(workers) if dask is None else executors.dask_workers(dask, workers)
