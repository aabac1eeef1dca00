from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.lab import Cell, Crew, CrewError, Store, driver, experiment, in_process, processes, run
from separatrix.lab.executors import kind_of_failure
from separatrix.lab.progress import Tally
from tests.lab.experiments import counts_runs, fails, interrupts_worker, kills_worker, matmul, number, walk
from tests.lab.helpers import contents, do

WALKS = [walk.cell(seed=seed, steps=50 + seed) for seed in range(40)]


def spawned_pool() -> Executor:
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


CREWS = {
    "in this process": in_process,
    "one process": lambda: processes(1),
    "two processes": lambda: processes(2),
    "threads": lambda: Crew("on threads", lambda: ThreadPoolExecutor(3), depth=5),
    "a foreign pool": lambda: Crew("on a pool", spawned_pool, executors=1, depth=4),
}


@pytest.mark.parametrize("crew", CREWS)
def test_every_executor_gives_the_same_store(tmp_path: Path, crew: str) -> None:
    tally = do(tmp_path / "it", WALKS, CREWS[crew]())
    assert (tally.done, tally.failed, tally.skipped, tally.complete) == (40, 0, 0, True)
    do(tmp_path / "plain", reversed(WALKS))
    assert contents(tmp_path / "it") == contents(tmp_path / "plain")


@pytest.mark.parametrize("crew", ["in this process", "two processes", "threads"])
def test_a_cell_has_one_thread_of_torch_and_of_blas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crew: str) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # the tests set it for child processes
    cells = [matmul.cell(seed=seed, n=400) for seed in range(3)]
    do(tmp_path / "one", cells)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        do(tmp_path / "it", cells, CREWS[crew]())
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    with Store.open(tmp_path / "it") as store:
        assert [store.result(record)["threads"] for record in store.records()] == [1, 1, 1]
    assert contents(tmp_path / "it") == contents(tmp_path / "one")
    assert after == 2


def test_done_cells_are_skipped(tmp_path: Path) -> None:
    cells = [counts_runs.cell(seed=seed, folder=str(tmp_path)) for seed in range(30)]
    assert do(tmp_path / "results", cells[:20]).done == 20
    tally = do(tmp_path / "results", cells)
    assert (tally.done, tally.skipped) == (10, 20)
    assert all((tmp_path / f"{seed}.runs").read_text() == "run\n" for seed in range(30))


def test_cells_are_read_as_the_run_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_BATCH", 10)
    read = 0

    def source() -> Iterator[Cell]:
        nonlocal read
        for seed in range(10**9):
            read += 1
            if read == 51:
                raise KeyboardInterrupt
            yield number.cell(seed=seed, x=1.0)

    tally = do(tmp_path, source())
    assert tally.stopped
    assert 40 <= tally.done <= 50


def test_a_cell_that_raises_fails_alone(tmp_path: Path) -> None:
    cells = [fails.cell(seed=seed, when=3) for seed in range(8)]
    tally = do(tmp_path, cells, processes(2))
    assert (tally.done, tally.failed, tally.complete) == (7, 1, False)
    again = do(tmp_path, cells)
    assert (again.done, again.failed, again.skipped, again.failed_before, again.complete) == (0, 0, 7, 1, False)
    retried = do(tmp_path, cells, retry_failed=True)
    assert (retried.failed, retried.skipped, retried.failed_before) == (1, 7, 0)


def test_a_result_that_cannot_be_kept_fails_with_its_name(tmp_path: Path) -> None:
    @experiment(version=1, name="tests.returns_a_lambda")
    def returns_a_lambda(seed: int) -> dict[str, object]:
        return {"f": lambda: seed}

    assert do(tmp_path, [returns_a_lambda.cell(seed=0)]).failed == 1
    with Store.open(tmp_path) as store:
        assert "result.f: expected" in next(store.records()).traceback


def test_another_version_is_another_cell_and_an_old_worker_refuses_it(tmp_path: Path) -> None:
    newer = Cell("tests.number", 2, '{"x":1.0}', 0)
    assert newer.key != number.cell(seed=0, x=1.0).key
    assert do(tmp_path, [newer]).failed == 1
    with Store.open(tmp_path) as store:
        assert (
            "this worker has version 1 of tests.number, and version 2 was asked for" in next(store.records()).traceback
        )


@pytest.mark.parametrize("times", [1, 3])
def test_a_cell_whose_worker_dies_is_tried_again(tmp_path: Path, times: int) -> None:
    cells = [kills_worker.cell(seed=seed, folder=str(tmp_path), times=times) for seed in range(6)]
    tally = do(tmp_path / "results", cells, processes(2))
    assert (tally.done, tally.failed, tally.deaths) == (6, 0, times)
    runs = [(tmp_path / f"{seed}.runs").read_text().count("run") for seed in range(6)]
    assert runs == [times + 1, 1, 1, 1, 1, 1]


def test_a_cell_that_kills_every_worker_is_marked_failed_and_the_run_goes_on(tmp_path: Path) -> None:
    cells = [kills_worker.cell(seed=seed, folder=str(tmp_path), times=99) for seed in range(6)]
    tally = do(tmp_path / "results", cells, processes(2))
    assert (tally.done, tally.failed, tally.deaths) == (5, 1, 4)
    assert (tmp_path / "0.runs").read_text().count("run") == 4
    with Store.open(tmp_path / "results") as store:
        (record,) = store.records(status="failed")
    assert "Each of the 4 attempts to run the cell killed a worker." in record.traceback


def test_a_broken_pool_is_rebuilt_and_its_other_cells_are_not_blamed(tmp_path: Path) -> None:
    cells = [kills_worker.cell(seed=seed, folder=str(tmp_path), times=99, victim=2, pause=0.3) for seed in range(12)]
    tally = do(tmp_path / "results", cells, CREWS["a foreign pool"]())
    assert (tally.done, tally.failed) == (11, 1)
    assert (tmp_path / "2.runs").read_text().count("run") == 4


def test_a_pool_that_broke_while_idle_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_BATCH", 10)
    made: list[ProcessPoolExecutor] = []

    def pool() -> Executor:
        made.append(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        return made[-1]

    def cells() -> Iterator[Cell]:
        for seed in range(3):
            if len(made) == 1 and seed == 2:
                (worker,) = made[0]._processes.values()
                os.kill(worker.pid, signal.SIGKILL)
                worker.join()
                while not made[0]._broken:  # the pool has not noticed it yet
                    time.sleep(0.01)
            yield from [number.cell(seed=seed * 1000 + k, x=0.0) for k in range(10)]

    assert do(tmp_path, cells(), Crew("on a pool", pool)).done == 30
    assert len(made) == 2


def test_workers_that_never_start_end_the_run_with_a_sentence(tmp_path: Path) -> None:
    crew = Crew(
        "on a pool",
        lambda: ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=os._exit, initargs=(3,)),
    )
    with pytest.raises(CrewError, match=r"Workers on a pool stop repeatedly \(BrokenProcessPool"):
        do(tmp_path, WALKS, crew)
    with Store.create(tmp_path) as store:
        assert run(store, WALKS, in_process()).done == 40


class Forgetful(ThreadPoolExecutor):
    """An executor that loses its work, as with a broken connection."""

    def submit(self, fn, /, *args, **kwargs):
        if len(args) < 2:
            return super().submit(fn, *args, **kwargs)
        lost: Future[object] = Future()
        lost.cancel()
        lost.set_running_or_notify_cancel()
        return lost


def test_a_lost_connection_is_retried_and_finally_given_up(tmp_path: Path) -> None:
    executors = iter([Forgetful(), Forgetful(), ThreadPoolExecutor(2)])
    tally = do(tmp_path / "one", WALKS, Crew("far away", lambda: next(executors), depth=3))
    assert (tally.done, tally.deaths) == (40, 0)
    with pytest.raises(CrewError, match="the connection to the workers was lost"):
        do(tmp_path / "other", WALKS, Crew("far away", Forgetful, depth=3))


def test_an_executor_that_cannot_carry_a_result_fails_the_cell(tmp_path: Path) -> None:
    class Clumsy(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            if len(args) < 2 or args[1].seed != 1:
                return super().submit(fn, *args, **kwargs)
            dropped: Future[object] = Future()
            dropped.set_exception(OSError("the pipe is too narrow"))
            return dropped

    tally = do(tmp_path, WALKS, Crew("on clumsy threads", Clumsy, depth=2))
    assert (tally.done, tally.failed) == (39, 1)


def test_ctrl_c_keeps_done_cells_and_releases_the_others(tmp_path: Path) -> None:
    cells = [counts_runs.cell(seed=seed, folder=str(tmp_path), pause=0.05) for seed in range(100)]

    class Presses:
        """Press Ctrl-C once, when a few cells are done."""

        def show(self, tally: Tally) -> None:
            if tally.done >= 5 and not tally.stopped:
                os.kill(os.getpid(), signal.SIGINT)

        def note(self, text: str) -> None:
            raise AssertionError(text)

    with Store.create(tmp_path / "results") as store:
        tally = run(store, cells, processes(2), progress=Presses())
    assert tally.stopped
    assert 5 <= tally.done < 100
    assert [status for status, *_ in contents(tmp_path / "results").values()] == ["done"] * tally.done
    rest = do(tmp_path / "results", cells, in_process())
    assert (rest.done, rest.skipped) == (100 - tally.done, tally.done)


def test_ctrl_c_does_not_wait_for_long_cells(tmp_path: Path) -> None:
    cells = [counts_runs.cell(seed=seed, folder=str(tmp_path), pause=10_000.0) for seed in range(3)]

    def press_when_two_are_running() -> None:
        while len(list(tmp_path.glob("*.runs"))) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press_when_two_are_running, daemon=True)
    pressing.start()
    assert do(tmp_path / "results", cells, processes(2)).stopped
    pressing.join()


def test_a_worker_ignores_ctrl_c(tmp_path: Path) -> None:
    assert do(tmp_path, [interrupts_worker.cell(seed=seed) for seed in range(3)], processes(1)).done == 3


def test_results_from_before_ctrl_c_are_kept(tmp_path: Path) -> None:
    class Interrupted(ThreadPoolExecutor):
        """Do the work immediately, until Ctrl-C is pressed."""

        def submit(self, fn, /, *args, **kwargs):
            if len(args) == 2 and args[1].seed == 3:
                raise KeyboardInterrupt
            done: Future[object] = Future()
            done.set_result(fn(*args, **kwargs))
            return done

    tally = do(tmp_path, WALKS, Crew("on threads", Interrupted, depth=10))
    assert (tally.stopped, tally.done) == (True, 3)
    assert list(contents(tmp_path)) == [cell.key for cell in WALKS[:3]]


@pytest.mark.parametrize("workers", [0, -1])
def test_the_number_of_workers_is_positive(workers: int) -> None:
    with pytest.raises(ArgumentError, match="--workers: expected an integer >= 1"):
        processes(workers)


def test_fate_of_an_ordinary_error() -> None:
    assert kind_of_failure(OSError("x")) == "broken"
