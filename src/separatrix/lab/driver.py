"""The run: take the cells that the store lacks, hand them out, write down what comes back.

Only this process writes the store. A cell whose worker dies is tried again, three times: when nothing else is left to
hand out, and alone on its executor, so that a cell that kills its workers cannot drag others down with it. Then it is
marked failed.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from separatrix.lab import provenance, registry, worker
from separatrix.lab.cell import Cell
from separatrix.lab.executors import Crew, CrewError, deaths, fate
from separatrix.lab.interrupts import Noted, noted
from separatrix.lab.lease import Lease
from separatrix.lab.progress import Progress, Silent, Tally
from separatrix.lab.store import Store
from separatrix.lab.worker import Outcome

RETRIES = 3
_BATCH = 500
_POLL_SECONDS = 1.0
_GLANCE_SECONDS = 0.1  # how late Ctrl-C may be seen


def run(
    store: Store, cells: Iterable[Cell], crew: Crew, *, progress: Progress | None = None, retry_failed: bool = False
) -> Tally:
    """Run those of the cells that the store lacks; on Ctrl-C stop, with what is done kept.

    `cells` is read as the run goes, so a large grid takes no memory. A cell that another run is doing is waited for.
    Cells that failed before are left, unless `retry_failed`.
    """
    started = time.perf_counter()
    with noted() as ctrl_c, Lease(store) as lease:
        current = _Run(lease, iter(cells), crew, progress or Silent(), retry_failed, ctrl_c)
        try:
            current.go()
        except KeyboardInterrupt:
            current.tally.stopped = True
            current.harvest()
        finally:
            for hand in current.hands:
                hand.executor.shutdown(wait=True, cancel_futures=True)
    current.tally.stopped |= ctrl_c.came
    current.tally.seconds = time.perf_counter() - started
    return current.tally


@dataclass
class _Task:
    """A cell on its way, with the number of workers that died under it."""

    cell: Cell
    key: str
    deaths: int = 0


@dataclass
class _Hand:
    """An executor and what it has. A task of None is its first, which shows that its workers start."""

    executor: Executor
    tasks: dict[Future[Any], _Task | None] = field(default_factory=dict)


class _Run:
    """The state of one run.

    A cell goes from `source` to `fresh`, is taken in the store, and goes to a hand; from there it is written down, or
    comes to `suspects` if a worker died with it, to `again` if it was lost otherwise. Cells that another run has taken
    wait in `held`.
    """

    def __init__(
        self,
        lease: Lease,
        source: Iterator[Cell],
        crew: Crew,
        progress: Progress,
        retry_failed: bool,
        ctrl_c: Noted,
    ) -> None:
        self.lease = lease
        self.source = source
        self.crew = crew
        self.progress = progress
        self.retry_failed = retry_failed
        self.ctrl_c = ctrl_c
        self.tally = Tally()
        self.fresh: deque[_Task] = deque()
        self.again: deque[_Task] = deque()
        self.suspects: deque[_Task] = deque()
        self.held: list[_Task] = []
        self.hands: list[_Hand] = []
        self.losses = 0  # of executors that no cell is to blame for, since a cell last came back

    def go(self) -> None:
        while self.look_ahead() or self.suspects or self.held or any(hand.tasks for hand in self.hands):
            if not self.hands and self.fresh:
                self.hands = [self.hire() for _ in range(self.crew.hands)]
            for hand in self.hands:
                self.feed(hand)
            self.rest()
            for hand, error in self.harvest():
                self.replace(hand, error)
            self.lease.check()
            if self.held and not self.fresh:
                self.look_after_the_held()

    def rest(self) -> None:
        """Wait until something has come back, or until it is time to look around; no longer than until Ctrl-C."""
        pending = [future for hand in self.hands for future in hand.tasks]
        if not (pending or self.held):
            return
        until = time.monotonic() + _POLL_SECONDS
        while time.monotonic() < until:
            self.ctrl_c.check()
            if not pending:
                time.sleep(_GLANCE_SECONDS)
            elif wait(pending, timeout=_GLANCE_SECONDS, return_when=FIRST_COMPLETED).done:
                return

    def look_ahead(self) -> bool:
        """Whether a cell is left to hand out, suspects aside; reads on until there is."""
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
        """Put a cell that is not being run by us where its status in the store says."""
        if status == "done":
            self.tally.skipped += 1
        elif status == "failed" and not self.retry_failed:
            self.tally.failed_before += 1
        elif status == "running":
            unless_running.append(task)
        else:
            self.fresh.append(task)

    def look_after_the_held(self) -> None:
        """See what became of the cells of other runs."""
        self.lease.free_the_dead()
        held, self.held = self.held, []
        known = self.lease.store.statuses([task.key for task in held])
        for task in held:
            self.sort(task, known.get(task.key), unless_running=self.held)
        self.progress.show(self.tally)

    def hire(self) -> _Hand:
        executor = self.crew.make()
        return _Hand(executor, {executor.submit(worker.ready): None})

    def feed(self, hand: _Hand) -> None:
        """Give a hand what it has room for; a suspect only if there is nothing else, and nothing else beside it."""
        if any(task is not None and task.deaths for task in hand.tasks.values()):
            return
        while self.again and len(hand.tasks) < self.crew.depth:
            self.submit(hand, self.again.popleft())
        while (room := self.crew.depth - len(hand.tasks)) > 0 and self.look_ahead() and self.fresh:
            tasks = [self.fresh.popleft() for _ in range(min(room, len(self.fresh)))]
            held = self.lease.take([(task.key, task.cell) for task in tasks], failed_too=self.retry_failed)
            for task in tasks:
                if task.key in held:
                    self.sort(task, held[task.key], unless_running=self.held)
                else:
                    self.submit(hand, task)
        if self.suspects and not hand.tasks:
            self.submit(hand, self.suspects.popleft())

    def submit(self, hand: _Hand, task: _Task) -> None:
        module = registry.named(task.cell.experiment).function.__module__
        try:
            future = hand.executor.submit(worker.execute, module, task.cell)
        except BrokenExecutor as error:
            # The pool broke before it started this one, which is not to blame: it comes back as one that was lost.
            future = Future()
            future.set_exception(CancelledError(f"{type(error).__name__}: {error}"))
        hand.tasks[future] = task

    def harvest(self) -> list[tuple[_Hand, BaseException]]:
        """Write down what has come back; the answer is the hands whose executors are of no more use, and why."""
        finished: list[tuple[_Task, Outcome]] = []
        useless = [(hand, error) for hand in self.hands if (error := self.reap(hand, finished)) is not None]
        if finished:
            self.lease.record([(task.key, task.cell, outcome) for task, outcome in finished])
            self.losses = 0
        failed = sum(outcome.result is None for _, outcome in finished)
        self.tally.failed += failed
        self.tally.done += len(finished) - failed
        self.progress.show(self.tally)
        return useless

    def reap(self, hand: _Hand, finished: list[tuple[_Task, Outcome]]) -> BaseException | None:
        """Take from a hand what it has done; the answer is the error that makes its executor useless, if any."""
        answers = {future: _answer(future) for future in hand.tasks if future.done()}
        if any(isinstance(answer, BrokenExecutor) for answer in answers.values()):
            wait(hand.tasks)  # a broken pool fails all that it has, one after the other
            answers = {future: _answer(future) for future in hand.tasks}
        useless, blameless = None, False
        for future, answer in answers.items():
            task = hand.tasks.pop(future)
            if not isinstance(answer, BaseException):
                if task is not None:
                    finished.append((task, answer))
            elif task is None:
                useless, blameless = answer, True
            elif (what := fate(answer)) == "lost":
                useless, blameless = answer, True
                self.requeue(task)
            elif what == "broken":
                finished.append((task, _failure(answer, "The executor gave it back undone.")))
            else:
                useless = answer if what == "died" else useless
                alone = self.crew.depth == 1 or task.deaths > 0
                task.deaths += deaths(answer)
                self.tally.deaths += deaths(answer)
                if task.deaths > RETRIES and alone:
                    why = f"A worker died each of the {task.deaths} times it was tried."
                    finished.append((task, _failure(answer, why)))
                else:
                    self.progress.note(f"A worker died with {task.cell}, which will be tried again.")
                    self.requeue(task)
        self.losses += blameless
        return useless

    def requeue(self, task: _Task) -> None:
        (self.suspects if task.deaths else self.again).append(task)

    def replace(self, hand: _Hand, error: BaseException) -> None:
        """Give a hand a new executor; what the old one still had is tried again."""
        for task in hand.tasks.values():
            if task is not None:
                self.requeue(task)
        hand.tasks = {}
        hand.executor.shutdown(wait=True, cancel_futures=True)
        if self.losses > RETRIES * self.crew.hands:
            raise CrewError(
                _NO_WORKERS.format(name=self.crew.name, error=f"{type(error).__name__}: {error}")
            ) from error
        new = self.hire()
        hand.executor, hand.tasks = new.executor, new.tasks


_DAMAGED = (
    "Damaged in the store, so that they count as not run and are run again: {count:,} of the cells, the first of them "
    "{first}."
)
_NO_WORKERS = (
    "No worker {name} stays up ({error}). What was done is kept. Workers must be able to import separatrix, and a "
    "script that starts them must do so under `if __name__ == '__main__':`."
)


def _answer(future: Future[Any]) -> Any:
    return (
        CancelledError("the connection to the workers was lost")
        if future.cancelled()
        else future.exception() or future.result()
    )


def _failure(error: BaseException, why: str) -> Outcome:
    text = "".join(traceback.format_exception(error))
    return Outcome(traceback=f"{text}{why}\n", origin=provenance.origin())
