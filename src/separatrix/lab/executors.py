"""The executors that run cells: this process, local processes, Dask workers, or any `concurrent.futures.Executor`.

A `Crew` says how to make an executor, how many to make, and how many cells each may have at a time. Each local worker
is a pool of one process, so that a worker that dies affects only its own cell.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as waited
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from separatrix.checks import whole
from separatrix.children import SAFE_PATH, safe_path
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.files import hold, is_held
from separatrix.lab import worker
from separatrix.lab.interrupts import kept_from_children

CONNECT_SECONDS = 10
"""The seconds to wait for a scheduler on another machine."""
LOCAL_SECONDS = 900
"""The seconds to wait for a local scheduler, which answers even on a busy machine."""
_SCRATCH = "separatrix-dask-"
"""The prefix of the names of scratch folders of local Dask clusters."""
_IN_USE = "in-use"
"""The lock in a scratch folder, which its run holds."""


class CrewError(SeparatrixError):
    """Workers do not start, or have stopped for good."""


@dataclass(frozen=True)
class Crew:
    """The executors of a run.

    Attributes:
        name: where cells run, as messages say it: "on 4 local processes".
        make: creates an executor. It is called again when an executor breaks.
        executors: how many executors to make.
        depth: how many cells an executor may have at a time.
    """

    name: str
    make: Callable[[], Executor]
    executors: int = 1
    depth: int = 1


def in_process() -> Crew:
    """A crew that runs one cell after the other in this process."""
    return Crew("in this process", _InProcess)


def processes(workers: int | None = None) -> Crew:
    """A pool of `workers` spawned local processes; by default one for each core that this process may use."""
    count = whole("--workers", _cores() if workers is None else workers, low=1)
    return Crew(f"on {count} local process{'es' if count > 1 else ''}", _Spawned, executors=count)


def dask_workers(address: str, workers: int | None = None) -> Crew:
    """The executors for the workers of a Dask scheduler.

    Anyone who can connect to a scheduler or a worker can run code on it. A scheduler that is started here accepts only
    connections with credentials that are made for the run and never leave its processes. For another scheduler, Dask's
    own configuration names the credentials (``distributed.comm.tls``); a scheduler at ``tcp://`` requires none.

    Args:
        address: the address of the scheduler (``tls://host:port``), or ``local`` to start one here for the run.
        workers: for ``local``, the number of workers, by default that of the cores; otherwise it must be None.

    Raises:
        CrewError: if Dask is not installed, or no scheduler answers.
    """
    # The credentials of a local cluster are made by `cryptography`.
    for name, needed in (("distributed", True), ("cryptography", address == "local")):
        if needed and find_spec(name) is None:
            raise CrewError(f"--dask needs {name}, which is not installed: pip install 'separatrix[dask]'")
    if address == "local":
        count = _cores() if workers is None else workers
        return Crew(f"on a Dask cluster of {count} here", lambda: _OnDask(address, count), depth=4 * count)
    if workers is not None:
        raise ArgumentError("--workers", expected="to be left out, as the Dask scheduler has its own", got=workers)
    with _answering(address), _client(address) as client:
        threads = sum(client.nthreads().values())
    # The scheduler has more cells than there are threads, so that workers that join later find some.
    return Crew(f"on Dask at {address}", lambda: _OnDask(address, 0), depth=max(16, 4 * threads))


def _client(place: Any) -> Any:
    """Make a Dask client of a cluster, or of the scheduler at an address.

    A client whose scheduler died may still be in memory. The old client closes when it is garbage-collected; in the
    thread of the new client this would be a deadlock, so it is collected here.
    """
    gc.collect()
    client: Any = (kind := import_module("distributed").Client).__new__(kind)
    try:
        seconds = CONNECT_SECONDS if isinstance(place, str) else LOCAL_SECONDS
        client.__init__(place, timeout=seconds, set_as_default=False)
    except BaseException:
        client.status = "closed"  # otherwise its destructor waits for a connection that never existed
        raise
    return client


@contextmanager
def _answering(address: str) -> Iterator[None]:
    """Raise a `CrewError` in place of the errors of Dask when a scheduler does not answer or refuses the connection."""
    try:
        yield
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # the last two if tls:// has no credentials
        raise CrewError(
            f"No Dask scheduler answers at {address} ({error}). Start one with `dask scheduler`, give the address that "
            "it prints, and for one at tls:// name the credentials in Dask's configuration; or use --dask local."
        ) from error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def kind_of_failure(error: BaseException) -> Literal["died", "given up", "lost", "broken"]:
    """The kind of failure of a cell, from the exception that the executor itself raised for it.

    Returns:
        ``died`` if the worker of the cell died, or another worker of the same pool, and the pool is broken; ``given
        up`` if Dask reports that workers died while they had the cell; ``lost`` if the connection was lost, which the
        cell did not cause; ``broken`` for anything else, such as a result that cannot be pickled.
    """
    scheduler = sys.modules.get("distributed.scheduler")
    if scheduler is not None and isinstance(error, scheduler.KilledWorker):
        return "given up"
    if isinstance(error, BrokenExecutor):
        return "died"
    return "lost" if isinstance(error, CancelledError) else "broken"


def deaths(error: BaseException) -> int:
    """The number of workers that died; Dask itself tries a task several times, and its exception says how often."""
    return int(getattr(error, "allowed_failures", 0)) + 1


class _InProcess(Executor):
    """An executor whose `submit` runs the task before it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        with worker.threads_restored():
            done.set_result(fn(*args, **kwargs))
        return done


class _Spawned(ProcessPoolExecutor):
    """A pool of one spawned process, which ends when this process ends in any way.

    The spawned process waits for one end of a pipe, and this process keeps the other end open.
    """

    def __init__(self) -> None:
        context = get_context("spawn")
        self._read_end, self._write_end = context.Pipe(duplex=False)
        with safe_path():  # the first semaphore starts the process that tracks them
            super().__init__(1, mp_context=context, initializer=worker.end_with_parent, initargs=(self._read_end,))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with safe_path(), kept_from_children():  # the first task starts the process
            return super().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut the executor down; `cancel_futures` also ends the cell that is running."""
        if cancel_futures:
            self._write_end.close()
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._write_end.close()
        self._read_end.close()


class _OnDask(Executor):
    """A Dask client as an executor, which closes the client when it is shut down.

    Dask has an executor too, but its futures never end if the connection is lost while a result is being sent.
    """

    def __init__(self, address: str, workers: int) -> None:
        self._cluster: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._running: dict[Any, Future[Any]] = {}
        if address == "local":
            _remove_abandoned()
            self._folder = tempfile.TemporaryDirectory(prefix=_SCRATCH)
            self._lock = hold(Path(self._folder.name, _IN_USE))
            self._cluster = _local_cluster(workers, self._folder.name)
        with _answering(address):
            self._client: Any = _client(self._cluster or address)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        # With `pure=False` each try is a new task, which Dask does not answer with the result of an earlier one.
        task = self._client.submit(fn, *args, **kwargs, pure=False)
        future: Future[Any] = Future()
        self._running[task] = future

        async def pass_on() -> None:
            try:
                answer = await self._client.gather(task, asynchronous=True)
            except (CancelledError, asyncio.CancelledError) as error:
                future.set_exception(CancelledError(f"the connection to the workers was lost: {error}"))
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(answer)
            del self._running[task]

        self._client.loop.add_callback(pass_on)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut the executor down; `cancel_futures` also cancels the cells that are running."""
        if self._client.status == "closed":
            return
        if cancel_futures:
            self._client.cancel(list(self._running))
        elif wait:
            waited(list(self._running.values()))
        try:
            self._client.close()
        except TimeoutError:
            pass  # a scheduler that does not answer must not keep the run from ending
        finally:
            if self._cluster is not None and self._folder is not None:
                self._cluster.close()
                os.close(self._lock)
                self._folder.cleanup()


def _remove_abandoned() -> None:
    """Remove the scratch folders of local clusters whose runs were killed before they could do so.

    These are folders of this user, not symlinks, whose lock no process holds.
    """
    if sys.platform == "win32":
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with suppress(FileNotFoundError, PermissionError):  # another run removes it too, or it is another user's
            about, lock = folder.lstat(), folder / _IN_USE
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and lock.is_file() and not is_held(lock):
                shutil.rmtree(folder, ignore_errors=True)


def _local_cluster(workers: int, folder: str) -> Any:
    """Start a scheduler and workers on the loopback interface that other users of this machine cannot use.

    Their connections are encrypted, with credentials that exist only in these processes. Dask puts its scratch folder
    at the beginning of ``sys.path``, so it is a folder that no other user can write. Dask's HTTP servers, which would
    show every user what runs, serve no pages.
    """
    distributed: Any = import_module("distributed")
    private: dict[str, object] = {"temporary-directory": folder}
    private |= {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")}
    # A worker that died is replaced after the block below, and its process is started with these variables.
    private |= {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in SAFE_PATH.items()}
    with safe_path(), kept_from_children(), import_module("dask").config.set(private):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            security=distributed.Security.temporary(),
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,  # the run itself reports what goes wrong
            scheduler_kwargs={"allowed_failures": 0, "dashboard": False},  # the run itself counts the failures
        )
