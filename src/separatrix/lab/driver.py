"""A run: it takes the cells that the store lacks, submits them to executors, and writes their outcomes.

Only this process writes to the store. A cell whose worker dies is tried again up to three times, when no other cell is
left to submit, and alone on its executor, so that a cell that kills its workers does not make other cells fail. Then it
is marked as failed.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from separatrix.lab import provenance, registry, worker
from separatrix.lab.cell import Cell
from separatrix.lab.executors import Crew, CrewError, deaths, kind_of_failure
from separatrix.lab.interrupts import Noted, noted
from separatrix.lab.lease import Lease
from separatrix.lab.progress import Progress, Silent, Tally
from separatrix.lab.store import Store
from separatrix.lab.worker import CellOutcome

RETRIES = 3
_BATCH = 500
_POLL_SECONDS = 1.0
_GLANCE_SECONDS = 0.1  # how long it may take until Ctrl-C is noticed


def run(
    store: Store,
    cells: Iterable[Cell],
    crew: Crew,
    *,
    progress: Progress | None = None,
    retry_failed: bool = False,
    cost: Callable[[Cell], float] = lambda cell: 1.0,
) -> Tally:
    """Run those of the cells that the store lacks. Ctrl-C ends the run; the results of finished cells are saved.

    Args:
        store: the store, opened by `Store.create`.
        cells: the cells. They are read during the run, so that a large grid takes little memory.
        crew: the executors to use.
        progress: Shows the progress of the run; None shows nothing.
        retry_failed: whether to run cells again that failed before.
        cost: the approximate cost of a cell, from which the progress estimates the remaining time.

    Returns:
        How many cells were run, skipped and failed. A cell that another run has taken is waited for.
    """
    started = time.perf_counter()
    with noted() as ctrl_c, Lease(store) as lease:
        current = _GridRun(lease, iter(cells), crew, progress or Silent(), retry_failed, cost, ctrl_c)
        try:
            current.go()
        except KeyboardInterrupt:
            current.tally.stopped = True
            current.record_finished()
        finally:
            for pool in current.pools:
                pool.executor.shutdown(wait=True, cancel_futures=True)
    current.tally.stopped |= ctrl_c.came
    current.tally.seconds = time.perf_counter() - started
    return current.tally


@dataclass
class _Task:
    """A cell that is to be run, with the number of workers that died while they ran it."""

    cell: Cell
    key: str
    deaths: int = 0


@dataclass
class _Pool:
    """An executor and its unfinished tasks. Its first task is None in place of a cell: it shows that workers start."""

    executor: Executor
    tasks: dict[Future[Any], _Task | None] = field(default_factory=dict)


class _GridRun:
    """The state of one run.

    A cell goes from `source` to `fresh`, is taken in the store, and is submitted to a pool. Then its outcome is
    written, or it goes to `suspects` if a worker died while it ran the cell, or to `again` if it was lost for another
    reason. Cells that another run has taken wait in `held`.
    """

    def __init__(
        self,
        lease: Lease,
        source: Iterator[Cell],
        crew: Crew,
        progress: Progress,
        retry_failed: bool,
        cost: Callable[[Cell], float],
        ctrl_c: Noted,
    ) -> None:
        self.lease = lease
        self.source = source
        self.crew = crew
        self.progress = progress
        self.retry_failed = retry_failed
        self.cost = cost
        self.ctrl_c = ctrl_c
        self.tally = Tally()
        self.fresh: deque[_Task] = deque()
        self.again: deque[_Task] = deque()
        self.suspects: deque[_Task] = deque()
        self.held: list[_Task] = []
        self.pools: list[_Pool] = []
        self.losses = 0  # executors lost since the last finished cell, for reasons that no cell caused

    def go(self) -> None:
        """Run until every cell is done, failed or skipped."""
        while self.read_ahead() or self.suspects or self.held or any(pool.tasks for pool in self.pools):
            if not self.pools and self.fresh:
                self.pools = [self.start_pool() for _ in range(self.crew.executors)]
            for pool in self.pools:
                self.fill(pool)
            self.pause()
            for pool, error in self.record_finished():
                self.replace(pool, error)
            self.lease.check()
            if self.held and not self.fresh:
                self.check_held()

    def pause(self) -> None:
        """Wait until a task has finished, until it is time to look at the store again, or until Ctrl-C."""
        pending = [future for pool in self.pools for future in pool.tasks]
        if not (pending or self.held):
            return
        until = time.monotonic() + _POLL_SECONDS
        while time.monotonic() < until:
            self.ctrl_c.check()
            if not pending:
                time.sleep(_GLANCE_SECONDS)
            elif wait(pending, timeout=_GLANCE_SECONDS, return_when=FIRST_COMPLETED).done:
                return

    def read_ahead(self) -> bool:
        """Read cells until one is ready to be submitted; return whether there is one, not counting suspects."""
        while not (self.fresh or self.again):
            self.ctrl_c.check()
            batch = [_Task(cell, cell.key) for cell in islice(self.source, _BATCH)]
            if not batch:
                return False
            known = self.lease.store.statuses([task.key for task in batch])
            if damaged := [task.cell for task in batch if known.get(task.key) == "damaged"]:
                self.progress.note(_DAMAGED.format(count=len(damaged), first=damaged[0]))
            for task in batch:
                self.sort(task, known.get(task.key), unless_running=self.fresh)
            self.progress.show(self.tally)
        return True

    def sort(self, task: _Task, status: str | None, unless_running: deque[_Task] | list[_Task]) -> None:
        """Count or queue a cell that this run has not taken, by its `status` in the store."""
        if status == "done":
            self.tally.skipped += 1
        elif status == "failed" and not self.retry_failed:
            self.tally.failed_before += 1
        elif status == "running":
            unless_running.append(task)
        else:
            self.fresh.append(task)

    def check_held(self) -> None:
        """Look up the cells that other runs had taken."""
        self.lease.free_abandoned_cells()
        held, self.held = self.held, []
        known = self.lease.store.statuses([task.key for task in held])
        for task in held:
            self.sort(task, known.get(task.key), unless_running=self.held)
        self.progress.show(self.tally)

    def start_pool(self) -> _Pool:
        """Make an executor and submit its first task."""
        executor = self.crew.make()
        return _Pool(executor, {executor.submit(worker.ready): None})

    def fill(self, pool: _Pool) -> None:
        """Submit as many cells to a pool as it may have; submit a suspect only alone, when no other cell is left."""
        if any(task is not None and task.deaths for task in pool.tasks.values()):
            return
        while self.again and len(pool.tasks) < self.crew.depth:
            self.submit(pool, self.again.popleft())
        while (room := self.crew.depth - len(pool.tasks)) > 0 and self.read_ahead() and self.fresh:
            tasks = [self.fresh.popleft() for _ in range(min(room, len(self.fresh)))]
            held = self.lease.take([(task.key, task.cell) for task in tasks], failed_too=self.retry_failed)
            for task in tasks:
                if task.key in held:
                    self.sort(task, held[task.key], unless_running=self.held)
                else:
                    self.submit(pool, task)
        if self.suspects and not pool.tasks:
            self.submit(pool, self.suspects.popleft())

    def submit(self, pool: _Pool, task: _Task) -> None:
        module = registry.named(task.cell.experiment).function.__module__
        try:
            future = pool.executor.submit(worker.execute, module, task.cell)
        except BrokenExecutor as error:
            # The executor broke before this task started, so the cell did not cause it: it counts as lost.
            future = Future()
            future.set_exception(CancelledError(f"{type(error).__name__}: {error}"))
        pool.tasks[future] = task

    def record_finished(self) -> list[tuple[_Pool, BaseException]]:
        """Write the outcomes of finished cells, and return the pools whose executors are useless, with the errors."""
        finished: list[tuple[_Task, CellOutcome]] = []
        useless = [(pool, error) for pool in self.pools if (error := self.collect(pool, finished)) is not None]
        if finished:
            self.lease.record([(task.key, task.cell, outcome) for task, outcome in finished])
            self.losses = 0
        failed = sum(outcome.result is None for _, outcome in finished)
        self.tally.failed += failed
        self.tally.done += len(finished) - failed
        self.tally.worked += sum(self.cost(task.cell) for task, _ in finished)
        self.progress.show(self.tally)
        return useless

    def collect(self, pool: _Pool, finished: list[tuple[_Task, CellOutcome]]) -> BaseException | None:
        """Move finished tasks of a pool to `finished`; return the error that makes its executor useless, if any."""
        answers = {future: _answer(future) for future in pool.tasks if future.done()}
        if any(isinstance(answer, BrokenExecutor) for answer in answers.values()):
            wait(pool.tasks)  # a broken executor fails all of its tasks, one after the other
            answers = {future: _answer(future) for future in pool.tasks}
        useless, blameless = None, False
        for future, answer in answers.items():
            task = pool.tasks.pop(future)
            if not isinstance(answer, BaseException):
                if task is not None:
                    finished.append((task, answer))
            elif task is None:
                useless, blameless = answer, True
            elif (what := kind_of_failure(answer)) == "lost":
                useless, blameless = answer, True
                self.requeue(task)
            elif what == "broken":
                finished.append((task, _failure(answer, "The executor could not run the cell.")))
            else:
                useless = answer if what == "died" else useless
                alone = self.crew.depth == 1 or task.deaths > 0
                task.deaths += deaths(answer)
                self.tally.deaths += deaths(answer)
                if task.deaths > RETRIES and alone:
                    why = f"Each of the {task.deaths} attempts to run the cell killed a worker."
                    finished.append((task, _failure(answer, why)))
                else:
                    self.progress.note(f"A worker died with {task.cell}, which will be tried again.")
                    self.requeue(task)
        self.losses += blameless
        return useless

    def requeue(self, task: _Task) -> None:
        (self.suspects if task.deaths else self.again).append(task)

    def replace(self, pool: _Pool, error: BaseException) -> None:
        """Give a pool a new executor; the tasks that the old one still had are tried again."""
        for task in pool.tasks.values():
            if task is not None:
                self.requeue(task)
        pool.tasks = {}
        pool.executor.shutdown(wait=True, cancel_futures=True)
        if self.losses > RETRIES * self.crew.executors:
            raise CrewError(
                _NO_WORKERS.format(name=self.crew.name, error=f"{type(error).__name__}: {error}")
            ) from error
        new = self.start_pool()
        pool.executor, pool.tasks = new.executor, new.tasks


_DAMAGED = (
    "Damaged cells in the store, which count as not run and are run again: {count:,}. The first of them is {first}."
)
_NO_WORKERS = (
    "Workers {name} stop repeatedly ({error}). Finished cells are saved. Workers must be able to import separatrix, "
    "and a script that starts them must do so under `if __name__ == '__main__':`."
)


def _answer(future: Future[Any]) -> Any:
    return (
        CancelledError("the connection to the workers was lost")
        if future.cancelled()
        else future.exception() or future.result()
    )


def _failure(error: BaseException, why: str) -> CellOutcome:
    text = "".join(traceback.format_exception(error))
    return CellOutcome(traceback=f"{text}{why}\n", origin=provenance.origin())
