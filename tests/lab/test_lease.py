from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from separatrix.lab import Store, StoreError, alive, in_process, lease, rows, run
from separatrix.lab.lease import Lease
from separatrix.lab.progress import Tally
from separatrix.lab.worker import CellOutcome
from tests.lab.experiments import counts_runs, number
from tests.lab.helpers import do, environment

CELLS = [number.cell(seed=seed, x=1.0) for seed in range(4)]
KEYED = [(cell.key, cell) for cell in CELLS]


@pytest.fixture
def two(tmp_path: Path):
    """One store, opened twice."""
    with Store.create(tmp_path) as one, Store.create(tmp_path) as other:
        yield one, other


def test_a_cell_is_taken_once(two) -> None:
    one, other = two
    with Lease(one) as first, Lease(other) as second:
        assert first.take(KEYED[:2], failed_too=False) == {}
        assert second.take(KEYED, failed_too=False) == {CELLS[0].key: "running", CELLS[1].key: "running"}
        assert first.take(KEYED, failed_too=False) == dict.fromkeys((cell.key for cell in CELLS), "running")


def test_a_run_releases_its_cells_when_it_ends(two) -> None:
    one, other = two
    with Lease(other) as second:
        with Lease(one) as first:
            first.take(KEYED, failed_too=False)
            first.record([(CELLS[0].key, CELLS[0], CellOutcome(result="{}"))])
        assert second.take(KEYED, failed_too=False) == {CELLS[0].key: "done"}


def test_an_error_of_the_store_releases_cells_too(two) -> None:
    one, other = two
    first = Lease(one).__enter__()
    first.take(KEYED, failed_too=False)
    first.__exit__(StoreError, StoreError("the disk is full"), None)
    assert len(list(one.records())) == 4
    with Lease(other) as second:
        assert second.take(KEYED, failed_too=False) == {}


def test_failed_cells_are_taken_only_on_request(two) -> None:
    one, _ = two
    with Lease(one) as first:
        first.take(KEYED, failed_too=False)
        first.record([(key, cell, CellOutcome(traceback="no")) for key, cell in KEYED[:2]])
        first.record([(key, cell, CellOutcome(result="{}")) for key, cell in KEYED[2:]])
        before = {**dict.fromkeys((key for key, _ in KEYED[:2]), "failed"), KEYED[2][0]: "done", KEYED[3][0]: "done"}
        assert first.take(KEYED, failed_too=False) == before
        assert first.take(KEYED, failed_too=True) == {KEYED[2][0]: "done", KEYED[3][0]: "done"}


def test_done_cells_are_never_overwritten(two) -> None:
    one, _ = two
    with Lease(one) as first:
        first.take(KEYED[:1], failed_too=False)
        for outcome in (CellOutcome(result='{"y":1}'), CellOutcome(result='{"y":2}'), CellOutcome(traceback="late")):
            first.record([(*KEYED[0], outcome)])
    (record,) = one.records()
    assert (record.status, record.result, record.traceback) == ("done", '{"y":1}', None)


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that has claimed the four cells and waits."""
    code = (
        "import sys; from separatrix.lab import Store; from separatrix.lab.lease import Lease\nfrom "
        "tests.lab.test_lease import KEYED\nwith Store.create(sys.argv[1]) as store, Lease(store) as lease:\n    "
        "lease.take(KEYED, failed_too=False); print('taken', flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = subprocess.Popen([sys.executable, "-c", code, str(folder)], env=environment(), **pipes)
    assert started.stdout.readline() == "taken\n"
    return started


def test_a_killed_run_releases_its_cells_immediately(tmp_path: Path) -> None:
    with holder(tmp_path) as other, Store.create(tmp_path) as store:
        assert len(alive.living(tmp_path)) == 1
        with Lease(store) as mine:
            mine.free_abandoned_cells()
            assert set(mine.take(KEYED, failed_too=False).values()) == {"running"}
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert alive.living(tmp_path) == []
        with Lease(store) as mine:
            assert mine.take(KEYED, failed_too=False) == {}


class Clock:
    """Two clocks that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.day = 1e9

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.day


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (alive, lease):
        monkeypatch.setattr(module, "time", made)
    return made


def test_a_clock_that_jumps_declares_no_run_dead(two, clock: Clock) -> None:
    one, other = two
    with Lease(one) as first:
        first.take(KEYED, failed_too=False)
        with Lease(other) as second:
            for jump in (600.0, -7200.0, 1e6):
                clock.day += jump
                second.free_abandoned_cells()
                assert alive.living(one.folder) == sorted([first.id, second.id])
                assert set(second.take(KEYED, failed_too=False).values()) == {"running"}
        assert first.take([(number.cell(seed=9, x=1.0).key, number.cell(seed=9, x=1.0))], failed_too=False) == {}


def test_a_frozen_run_is_taken_over_and_reported(tmp_path: Path, clock: Clock) -> None:
    """A run that holds its lock but does not increment its counter while another run watches it."""
    with Store.create(tmp_path) as store, Store.create(tmp_path) as again, Lease(store) as frozen:
        frozen.take(KEYED[:2], failed_too=False)
        with Lease(again) as other:
            clock.now += alive.STALE_SECONDS - 1
            other.free_abandoned_cells()
            assert other.take(KEYED[:1], failed_too=False) == {KEYED[0][0]: "running"}
            clock.now += 1
            other.free_abandoned_cells()
            assert other.take(KEYED[:1], failed_too=False) == {}
            with pytest.raises(StoreError, match=r"another run on .* took over its cells"):
                frozen.take(KEYED[2:], failed_too=False)
            # Results of the frozen run are as valid as those of the other, and are kept whichever is first.
            frozen.record([(key, cell, CellOutcome(result='{"by":"frozen"}')) for key, cell in KEYED[:2]])
            other.record([(*KEYED[0], CellOutcome(result='{"by":"other"}'))])
            other.take(KEYED[:2], failed_too=False)
    with Store.open(tmp_path) as store:
        assert [record.result for record in store.records(status="done")] == ['{"by":"frozen"}'] * 2


def test_a_run_that_counts_up_is_never_taken_over(two, clock: Clock) -> None:
    one, other = two
    with Lease(one) as first, Lease(other) as second:
        first.take(KEYED, failed_too=False)
        for count in range(5):
            alive.beat(first._lock, 100 + count)
            clock.now += alive.STALE_SECONDS - 1
            second.free_abandoned_cells()
        assert set(second.take(KEYED, failed_too=False).values()) == {"running"}


def test_the_heartbeat_counts(two, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = two
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.01)
    with Lease(one) as first:
        seen = set()
        while len(seen) < 3:
            first.check()
            seen.add(alive.lock_path(one.folder, first.id).read_bytes())


def test_errors_of_the_heartbeat_reach_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(lease, "beat", full)
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.01)
    with Store.create(tmp_path) as store, pytest.raises(StoreError, match="could not be used"):
        run(store, (number.cell(seed=seed, x=0.0) for seed in count()), in_process())


def test_the_run_of_a_damaged_row_is_not_a_path(tmp_path: Path) -> None:
    """The run name in a row is used as a path only if it is a valid name."""
    victim = tmp_path / "victim.lock"
    victim.touch()
    with Store.create(tmp_path / "results") as store:
        with store.transaction() as connection:
            for i, run in enumerate(["../../victim", b"\xff", 7]):
                row = (f"key {i}", "e", 1, "{}", 0, "running", run, None, None, None, None, None, "no seal")
                connection.execute(rows.PUT, row)
        with Lease(store):
            assert store.statuses(["key 0", "key 1", "key 2"]) == {}
    assert victim.exists()


def test_two_runs_at_once_do_each_cell_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    code = (
        "import sys; from tests.lab.helpers import do; from tests.lab.experiments import counts_runs\nfrom pathlib "
        "import Path\ncells = [counts_runs.cell(seed=s, folder=sys.argv[2], pause=0.05) for s in "
        "range(60)]\nprint('ready', flush=True); input()\ntally = do(Path(sys.argv[1]), cells); print(tally.done, "
        "tally.skipped)"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "results"), str(marks)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(arguments, env=environment(), **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    tallies = [tuple(map(int, process.communicate(timeout=900)[0].split())) for process in processes]
    assert [path.read_text() for path in marks.iterdir()] == ["run\n"] * 60
    assert [done + skipped for done, skipped in tallies] == [60, 60]
    assert sum(done for done, _ in tallies) == 60
    assert min(done for done, _ in tallies) > 0


def test_a_run_waits_for_the_cells_of_another_and_takes_them_when_it_dies(tmp_path: Path) -> None:
    class Killer:
        """Kill the other run when this run, which has no free cells, has shown its progress five times."""

        def __init__(self) -> None:
            self.looks = 0

        def show(self, tally: Tally) -> None:
            self.looks += 1
            if self.looks == 5:
                assert tally.passed == 0
                other.kill()
                other.wait()

        def note(self, text: str) -> None:
            raise AssertionError(text)

    killer = Killer()
    with holder(tmp_path) as other, Store.create(tmp_path) as store:
        tally = run(store, CELLS, in_process(), progress=killer)
    assert killer.looks > 5
    assert (tally.done, tally.skipped) == (4, 0)


def test_a_cell_named_twice_is_run_once(tmp_path: Path) -> None:
    tally = do(tmp_path / "results", [counts_runs.cell(seed=0, folder=str(tmp_path))] * 3)
    assert (tally.done, tally.skipped) == (1, 2)
    assert (tmp_path / "0.runs").read_text() == "run\n"
