"""What a worker does: run one cell with one thread, and give back text and bytes. It never touches the store."""

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
class Outcome:
    """What came out of a cell: a result, or the traceback of a failure; and, as provenance, whence and how long."""

    result: str | None = None
    arrays: dict[str, bytes] = field(default_factory=dict)
    traceback: str | None = None
    seconds: float = 0.0
    origin: str = "{}"


def execute(module: str, cell: Cell) -> Outcome:
    """Run a cell. `module` is where its experiment is registered; the driving process says so, never a file.

    Whatever the experiment raises is its outcome.
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
        started = time.perf_counter()  # what was imported for the first cell is not its cost
        with cut_short():  # where the run is in this process too
            came_out = recipe.function(**cell.arguments, seed=cell.seed)
        text, arrays = results.encode(came_out)
    except (Exception, SystemExit):
        seconds = time.perf_counter() - started
        return Outcome(traceback=traceback.format_exc(), seconds=seconds, origin=provenance.origin())
    seconds = time.perf_counter() - started
    return Outcome(result=text, arrays=arrays, seconds=seconds, origin=provenance.origin())


def use_one_thread() -> None:
    """Give torch, and the BLAS and OpenMP of every library, one thread: sums then have one order, so results repeat.

    Torch's number belongs to the thread that asks, so this is asked before every cell. The environment speaks to the
    libraries that the cell is the first to load.
    """
    os.environ.update(dict.fromkeys(_COUNTS, "1"))
    with _LIMITING:  # a library that all threads share obeys the first that sets its number, and no other
        libraries = ThreadpoolController()
        libraries.limit(limits=1)
        deaf = [library.filepath for library in libraries.lib_controllers if library.num_threads != 1]
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if deaf:
        raise RuntimeError(f"another thread of this process decides how many threads these use: {', '.join(deaf)}")


@contextmanager
def threads_restored() -> Iterator[None]:
    """Leave the numbers of threads as they were found, for a cell that runs in the user's own process.

    A library that the cell is the first to load keeps one thread.
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
    """A worker's first task: that it comes back shows that workers start and can import this module."""
    return os.getpid()


def hold(leash: Connection) -> None:
    """Have a spawned process end when the leash is let go.

    The other end of it is closed when the driving process stops this worker, or dies, however it dies.
    """
    Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    try:
        leash.poll(None)
    finally:
        os._exit(1)
