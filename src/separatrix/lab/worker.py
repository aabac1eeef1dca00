"""Runs one cell with one thread in a worker process, and returns text and bytes. It never uses the store."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from threading import Lock, Thread

from threadpoolctl import ThreadpoolController, threadpool_limits  # type: ignore[import-untyped]

from separatrix.lab import provenance, registry, results
from separatrix.lab.cell import Cell
from separatrix.lab.interrupts import cut_short

_LIMITING = Lock()
_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """The outcome of a cell: a result, or the traceback of a failure.

    Attributes:
        result: the result as canonical JSON; None after a failure.
        arrays: the files of the result's arrays, by their SHA-256.
        traceback: the traceback of a failure; None after a success.
        seconds: how long the cell took.
        origin: the facts about this process, as JSON.
    """

    result: str | None = None
    arrays: dict[str, bytes] = field(default_factory=dict)
    traceback: str | None = None
    seconds: float = 0.0
    origin: str = "{}"


def execute(module: str, cell: Cell) -> CellOutcome:
    """Run a cell; an exception of the experiment becomes its outcome.

    Args:
        module: the module that registers the experiment. It comes from the driving process, never from a file.
        cell: the cell.
    """
    started = time.perf_counter()
    try:
        import_module(module)
        use_one_thread()
        recipe = registry.named(cell.experiment)
        if recipe.version != cell.version:
            raise RuntimeError(
                f"this worker has version {recipe.version} of {cell.experiment}, and version {cell.version} was asked "
                "for: give every worker the same code"
            )
        started = time.perf_counter()  # the time of imports does not count
        with cut_short():  # matters if the run is in this process too
            came_out = recipe.function(**cell.arguments, seed=cell.seed)
        text, arrays = results.encode(came_out)
    except (Exception, SystemExit):
        seconds = time.perf_counter() - started
        return CellOutcome(traceback=traceback.format_exc(), seconds=seconds, origin=provenance.origin())
    seconds = time.perf_counter() - started
    return CellOutcome(result=text, arrays=arrays, seconds=seconds, origin=provenance.origin())


def use_one_thread() -> None:
    """Limit torch, and the BLAS and OpenMP of every library, to one thread, so that sums are added in a fixed order.

    Torch's number of threads belongs to the calling thread, so this function is called before every cell. Environment
    variables limit the libraries that are loaded only when the cell runs.
    """
    os.environ.update(dict.fromkeys(_COUNTS, "1"))
    with _LIMITING:  # in a library that all threads share, only the first thread that sets the number can change it
        libraries = ThreadpoolController()
        libraries.limit(limits=1)
        unlimited = [library.filepath for library in libraries.lib_controllers if library.num_threads != 1]
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if unlimited:
        raise RuntimeError(f"another thread of this process sets the number of threads of {', '.join(unlimited)}")


@contextmanager
def threads_restored() -> Iterator[None]:
    """Restore the numbers of threads after the block, for a cell that runs in the user's own process.

    A library that was first loaded by the cell stays limited to one thread.
    """
    environment = {name: os.environ.get(name) for name in _COUNTS}
    torch = sys.modules.get("torch")
    torch_threads = torch.get_num_threads() if torch else 0
    try:
        with threadpool_limits():
            yield
    finally:
        if torch:
            torch.set_num_threads(torch_threads)
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def ready() -> int:
    """The first task of a worker: if it returns, workers start and can import this module."""
    return os.getpid()


def end_with_parent(pipe: Connection) -> None:
    """Make this spawned process end when the other end of the pipe is closed.

    The other end is closed when the driving process stops this worker, or ends in any way.
    """
    Thread(target=_end_with, args=(pipe,), daemon=True).start()


def _end_with(pipe: Connection) -> None:
    try:
        pipe.poll(None)
    finally:
        os._exit(1)
