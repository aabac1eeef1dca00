"""Runs on a real Dask scheduler, with workers in separate processes."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from separatrix.errors import ArgumentError
from separatrix.lab import Crew, CrewError, Store, dask_workers, executors, run
from tests.lab.experiments import counts_runs, kills_worker, leaves_traces, matmul, walk
from tests.lab.helpers import contents, do, environment, finish

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# Closing a cluster leaves sockets to the garbage collector, which pytest would report as our errors.
pytestmark = [
    pytest.mark.timeout(1800),  # schedulers and workers start slowly on a busy machine
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Cluster:
    """A scheduler and its workers, each started by Dask's own command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        file = folder / "scheduler.json"
        self._start(
            "scheduler",
            "--port",
            "0",
            "--host",
            "127.0.0.1",
            "--dashboard-address",
            "127.0.0.1:0",
            "--scheduler-file",
            str(file),
        )
        deadline = time.monotonic() + 900
        while not file.exists() or not file.read_text().strip().endswith("}"):
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.05)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            self.address = client.scheduler.address

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[str]:
        script = f"from distributed.cli.dask_{kind} import main; main()"
        started = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            env=environment("default"),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(started)
        return started

    def add_worker(self) -> subprocess.Popen[str]:
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        return self._start("worker", self.address, *options, "--local-directory", str(self.folder))

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "dask").mkdir()
    made = Cluster(tmp_path / "dask")
    try:
        yield made
    finally:
        made.close()


def wait_for(workers: int, address: str) -> None:
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=900)


def test_a_worker_is_killed_and_one_joins_late(cluster: Cluster, tmp_path: Path) -> None:
    victim, _ = cluster.add_worker(), cluster.add_worker()
    wait_for(2, cluster.address)
    cells = [leaves_traces.cell(seed=seed, folder=str(tmp_path), pause=0.2) for seed in range(40)]

    class Killer:
        """Kill a worker in the middle of a cell when the first results have arrived, and start another."""

        def __init__(self) -> None:
            self.killed_at = 0
            self.struck = -1

        def show(self, tally) -> None:
            if tally.done < 6 or self.killed_at:
                return
            victim.send_signal(signal.SIGSTOP)  # so that its cell cannot end between the check and the kill
            self.struck = max((seed for seed in range(40) if unfinished(seed)), default=-1)
            if self.struck < 0:  # the worker was between two cells
                victim.send_signal(signal.SIGCONT)
                return
            self.killed_at = tally.done
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            cluster.add_worker()

        def note(self, text: str) -> None:
            raise AssertionError(text)

    def unfinished(seed: int) -> bool:
        begun = tmp_path / f"{seed}.begun"
        return begun.exists() and begun.read_text() == f"{victim.pid}\n" and not (tmp_path / f"{seed}.ended").exists()

    killer = Killer()
    with Store.create(tmp_path / "results") as store:
        tally = run(store, cells, dask_workers(cluster.address), progress=killer)
    assert 6 <= killer.killed_at < 40
    assert (tally.done, tally.failed) == (40, 0)
    runs = [(tmp_path / f"{seed}.begun").read_text().count("\n") for seed in range(40)]
    assert min(runs) == 1
    assert runs[killer.struck] == 2, "the cell that the victim had was not begun again"
    with Store.open(tmp_path / "results") as store:
        assert len(list(store.records(status="done"))) == 40
    do(tmp_path / "plain", cells)
    assert contents(tmp_path / "results") == contents(tmp_path / "plain")


def test_dask_gives_the_same_bits(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_worker()
    cells = [matmul.cell(seed=0, n=300), *(walk.cell(seed=seed, steps=30) for seed in range(5))]
    assert do(tmp_path / "dask-run", cells, dask_workers(cluster.address)).done == 6
    do(tmp_path / "plain", cells)
    assert contents(tmp_path / "dask-run") == contents(tmp_path / "plain")


def test_a_scheduler_that_dies_ends_the_run_with_a_sentence_and_nothing_is_lost(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_worker()
    wait_for(1, cluster.address)
    cells = [counts_runs.cell(seed=seed, folder=str(tmp_path), pause=0.1) for seed in range(30)]

    class Killer:
        def show(self, tally) -> None:
            if tally.done >= 3:
                monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)  # nobody will respond, however long one waits
                os.kill(cluster.processes[0].pid, signal.SIGKILL)

        def note(self, text: str) -> None:
            pass

    with Store.create(tmp_path / "results") as store, pytest.raises(CrewError, match="No Dask scheduler answers at"):
        run(store, cells, dask_workers(cluster.address), progress=Killer())
    rest = do(tmp_path / "results", cells)
    assert rest.skipped >= 3
    assert rest.done + rest.skipped == 30


def test_dask_local_and_a_cell_that_kills_its_workers(tmp_path: Path) -> None:
    cells = [kills_worker.cell(seed=seed, folder=str(tmp_path), times=99) for seed in range(4)]
    tally = do(tmp_path / "results", cells, dask_workers("local", 2))
    assert (tally.done, tally.failed) == (3, 1)
    assert (tmp_path / "0.runs").read_text().count("run") == 4
    with Store.open(tmp_path / "results") as store:
        (record,) = store.records(status="failed")
    assert "KilledWorker" in record.traceback


@pytest.fixture
def local() -> Iterator[executors._OnDask]:
    """A cluster of one local worker, as `--dask local` starts it."""
    made = executors._OnDask("local", 1)
    try:
        yield made
    finally:
        made.shutdown(cancel_futures=True)


def where() -> tuple[list[str], str]:
    """The first import path of a worker, and the folder for data that does not fit in memory."""
    return sys.path, distributed.get_worker().local_directory


def test_a_local_cluster_requires_its_credentials(local: executors._OnDask) -> None:
    """The scheduler, the worker and the worker's nanny refuse it: each would run any code that it is sent."""
    assert local.submit(sum, [1, 2]).result(900) == 3
    [(place, worker)] = local._client.scheduler_info()["workers"].items()
    for address in (local._cluster.scheduler_address, place, worker["nanny"]):
        assert address.startswith("tls://127.0.0.1:")
        for stranger, security in (
            (address.replace("tls:", "tcp:"), None),
            (address, distributed.Security.temporary()),
        ):
            with pytest.raises(distributed.comm.CommClosedError):
                asyncio.run(greet(stranger, security))
        asyncio.run(greet(address, local._cluster.security))


async def greet(address: str, security: object) -> None:
    """Request the identity of a Dask process, as any client with access may."""
    options = security.get_connection_args("client") if security else {}
    async with distributed.core.rpc(address, connection_args=options, timeout=900) as remote:
        await remote.identity()


def test_a_local_cluster_imports_from_no_folder_of_others(local: executors._OnDask) -> None:
    """Dask puts its scratch folder first on the module path, in this process and in the workers."""
    paths, kept = local.submit(where).result(900)
    folder = Path(kept).parents[1]
    assert folder.parent == Path(tempfile.gettempdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.getuid()
    strange = [one for one in (*paths, *sys.path) if "dask-scratch-space" in one and not one.startswith(f"{folder}/")]
    assert strange == []
    still = local.submit(time.sleep, 0.5)
    local.shutdown()  # waits for running cells
    assert still.result(0) is None
    assert not folder.exists()


def test_a_local_cluster_shows_nothing_over_http(local: executors._OnDask) -> None:
    info = local._client.scheduler_info()
    [worker] = info["workers"].values()
    for port in (info["services"]["dashboard"], worker["services"]["dashboard"]):
        for path in ("/", "/health", "/info/main/workers.html", "/json/counts.json", "/metrics", "/status"):
            caller = HTTPConnection("127.0.0.1", port, timeout=900)
            caller.request("GET", path)
            assert caller.getresponse().status == 404, path
            caller.close()


def test_a_scheduler_with_credentials_and_none_of_ours(local: executors._OnDask) -> None:
    address = local._cluster.scheduler_address
    with pytest.raises(CrewError, match=r"No Dask scheduler answers at tls://.* name the credentials"):
        dask_workers(address)
    needed = {"distributed.comm.require-encryption": True}
    with dask.config.set(needed), pytest.raises(CrewError, match="encryption required by Dask configuration"):
        dask_workers(address.replace("tls:", "tcp:"))


def test_a_scheduler_that_blames_bystanders(tmp_path: Path) -> None:
    """Dask counts the death of a worker against all of its cells; only the cell that caused it is marked failed."""
    from distributed.scheduler import KilledWorker

    tried: list[int] = []

    class Blaming(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            if len(args) == 2:
                tried.append(args[1].seed)
                if args[1].seed == 1 or (args[1].seed in (0, 2) and tried.count(args[1].seed) == 1):
                    blamed: Future[object] = Future()
                    blamed.set_exception(KilledWorker("execute", None, 3))
                    return blamed
            return super().submit(fn, *args, **kwargs)

    tally = do(tmp_path, [walk.cell(seed=seed, steps=3) for seed in range(6)], Crew("far away", Blaming, depth=4))
    assert (tally.done, tally.failed) == (5, 1)
    assert sorted(tried) == [0, 0, 1, 1, 2, 2, 3, 4, 5]
    assert sorted(tried[-3:]) == [0, 1, 2]  # suspects come last
    with Store.open(tmp_path) as store:
        (record,) = store.records(status="failed")
    assert record.cell.seed == 1
    assert "Each of the 8 attempts to run the cell killed a worker." in record.traceback


def test_no_scheduler_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)
    with pytest.raises(CrewError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9 .* or use --dask local"):
        dask_workers("tcp://127.0.0.1:9")
    with pytest.raises(CrewError, match="No Dask scheduler answers at nonsense://x"):
        dask_workers("nonsense://x")


@pytest.mark.parametrize("address", ["nonsense", "tls://127.0.0.1:9"])
def test_an_invalid_address_is_refused_in_a_sentence(address: str, tmp_path: Path, root: Path) -> None:
    """The command runs in its own process, because a client that never connected delays the exit of its process."""
    sweep = root / "examples" / "dask_sweep.toml"
    done = finish("sweep", sweep, "--store", tmp_path / "results", "--dask", address, warnings="default")
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if "FutureWarning" not in line]
    assert line.startswith(f"separatrix: No Dask scheduler answers at {address}")


KILLED = """
import os, signal, sys
from separatrix.lab import executors
if __name__ == "__main__":
    cluster = executors._OnDask("local", 1)
    print(cluster._folder.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_scratch_folder_of_a_killed_run_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    scratch = tmp_path / "scratch"
    for other in ("separatrix-dask-without-a-lock", "separatrix", "target"):
        (scratch / other).mkdir(parents=True)
    (scratch / "target" / "in-use").touch()
    (scratch / "separatrix-dask-link").symlink_to(scratch / "target")
    done = subprocess.run(
        [sys.executable, tmp_path / "killed.py"],
        env={**environment("default"), "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = Path(done.stdout.strip())
    assert left.parent == scratch
    assert left.is_dir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    first = executors._OnDask("local", 1)
    assert not left.exists()
    second = executors._OnDask("local", 1)
    assert sorted(path.name for path in scratch.iterdir()) == sorted(
        ["separatrix", "separatrix-dask-link", "separatrix-dask-without-a-lock", "target"]
        + [Path(cluster._folder.name).name for cluster in (first, second) if cluster._folder is not None]
    )
    for cluster in (first, second):
        cluster.shutdown(cancel_futures=True)
    assert (scratch / "target" / "in-use").exists()


def test_the_number_of_workers_of_a_scheduler_is_its_own() -> None:
    with pytest.raises(ArgumentError, match="--workers: expected to be left out"):
        dask_workers("tcp://127.0.0.1:9", 3)


@pytest.mark.parametrize("name", ["distributed", "cryptography"])
def test_dask_is_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CrewError, match=rf"--dask needs {name}, .*: pip install 'separatrix\[dask\]'"):
        dask_workers("local")
