"""Who runs the cells: this process, local processes, Dask workers, or any `concurrent.futures.Executor`.

A `Crew` says how to make an executor, how many to have, and how many cells each takes at a time. Local workers are
pools of one process each, so that a worker that dies takes only its own cell with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as waited
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, Literal

from separatrix.checks import whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.lab import worker
from separatrix.lab.interrupts import kept_from_children

CONNECT_SECONDS = 10


class CrewError(SeparatrixError):
    """Workers that do not start, or are gone for good."""


@dataclass(frozen=True)
class Crew:
    """How to run cells: `make` gives an executor, `hands` is how many to make, `depth` the cells each has at a time.

    An executor that breaks is shut down and made anew.
    """

    name: str
    make: Callable[[], Executor]
    hands: int = 1
    depth: int = 1


def in_process() -> Crew:
    """One cell after the other, in this process."""
    return Crew("in this process", _InProcess)


def processes(workers: int | None = None) -> Crew:
    """Local processes, spawned; as many as the machine has cores, unless `workers` says otherwise."""
    count = whole("--workers", _cores() if workers is None else workers, low=1)
    return Crew(f"on {count} local process{'es' if count > 1 else ''}", _Spawned, hands=count)


def dask_workers(address: str, workers: int | None = None) -> Crew:
    """The workers of a Dask scheduler (``tls://host:port``), or, for ``local``, of one started here for the run.

    Whoever can talk to a scheduler or a worker can run code on it. One that is started here talks only to those who
    have the credentials that were made for the run and never leave its processes. For another scheduler, Dask's own
    configuration names the credentials (``distributed.comm.tls``); without them, at ``tcp://``, there are none.
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
    # More than there are threads: workers that join later find cells waiting at the scheduler.
    return Crew(f"on Dask at {address}", lambda: _OnDask(address, 0), depth=max(16, 4 * threads))


def _client(place: Any) -> Any:
    """A Dask client of a cluster, or of the scheduler at an address."""
    return import_module("distributed").Client(place, timeout=CONNECT_SECONDS, set_as_default=False)


@contextmanager
def _answering(address: str) -> Iterator[None]:
    """Turn what Dask raises when a scheduler does not answer, or not to us, into a sentence."""
    try:
        yield
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # the last two: encryption without credentials
        raise CrewError(
            f"No Dask scheduler answers at {address} ({error}). Start one with `dask scheduler`, give the address that "
            "it prints, and for one at tls:// name the credentials in Dask's configuration; or use --dask local."
        ) from error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def fate(error: BaseException) -> Literal["died", "given up", "lost", "broken"]:
    """What an exception of the executor itself says of the cell it had.

    ``died``: its worker died, or another's in the same pool, and the pool is broken. ``given up``: Dask says that
    workers died with it, or with another cell that they had. ``lost``: the connection went, and the cell is not to
    blame. ``broken``: anything else, such as a result that cannot travel.
    """
    scheduler = sys.modules.get("distributed.scheduler")
    if scheduler is not None and isinstance(error, scheduler.KilledWorker):
        return "given up"
    if isinstance(error, BrokenExecutor):
        return "died"
    return "lost" if isinstance(error, CancelledError) else "broken"


def deaths(error: BaseException) -> int:
    """How many workers died: Dask tries again by itself, as often as its scheduler was told to, and says so."""
    return int(getattr(error, "allowed_failures", 0)) + 1


class _InProcess(Executor):
    """An executor that has run its task when `submit` returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        with worker.threads_restored():
            done.set_result(fn(*args, **kwargs))
        return done


class _Spawned(ProcessPoolExecutor):
    """A pool of one spawned process, held on a leash, so that it ends with this process, however that ends."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._far_end, self._leash = context.Pipe(duplex=False)
        super().__init__(1, mp_context=context, initializer=worker.hold, initargs=(self._far_end,))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with kept_from_children():  # the first task starts the process
            return super().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As every executor's; to cancel also ends the cell that is running."""
        if cancel_futures:
            self._leash.close()
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._leash.close()
        self._far_end.close()


class _OnDask(Executor):
    """A Dask client as an executor, its life tied to it.

    Dask has one of its own, whose futures never end if the connection goes while a result is under way.
    """

    def __init__(self, address: str, workers: int) -> None:
        self._cluster: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._running: dict[Any, Future[Any]] = {}
        if address == "local":
            self._folder = tempfile.TemporaryDirectory(prefix="separatrix-dask-")
            self._cluster = _local_cluster(workers, self._folder.name)
        with _answering(address):
            self._client: Any = _client(self._cluster or address)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        # Not pure: each try is a task of its own, and is not answered by the memory of an earlier one.
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
        """As every executor's; to cancel also gives up the cells that are running."""
        if self._client.status == "closed":
            return
        if cancel_futures:
            self._client.cancel(list(self._running))
        elif wait:
            waited(list(self._running.values()))
        try:
            self._client.close()
        except TimeoutError:
            pass  # a scheduler that does not answer keeps nobody from leaving
        finally:
            if self._cluster is not None and self._folder is not None:
                self._cluster.close()
                self._folder.cleanup()


def _local_cluster(workers: int, folder: str) -> Any:
    """A scheduler and workers on loopback that other users of this machine can neither ask nor feed.

    Their connections are encrypted, with credentials that exist in these processes alone. Dask puts its scratch folder
    in front of ``sys.path``, so it is one that nobody else can write. Its HTTP servers, which would show anyone what
    runs, serve nothing.
    """
    distributed: Any = import_module("distributed")
    private: dict[str, object] = {"temporary-directory": folder}
    private |= {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")}
    with kept_from_children(), import_module("dask").config.set(private):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            security=distributed.Security.temporary(),
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,  # what goes wrong is told by the run
            scheduler_kwargs={"allowed_failures": 0, "dashboard": False},  # the run counts the failures
        )
