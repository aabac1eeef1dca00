"""The output of `separatrix doctor` about a store and about the speed of this machine."""

from __future__ import annotations

import shutil
import sqlite3
import tomllib
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from separatrix import doctor
from separatrix.attention import operator, reference
from separatrix.attention.arithmetic.assumptions import ASSUMPTIONS
from separatrix.attention.arithmetic.measured import Measurement
from separatrix.attention.near_linear.cost import Shape, exact_cost
from separatrix.commands.app import app
from separatrix.lab.health import store_health
from separatrix.native import Native, native
from tests.lab.experiments import number
from tests.lab.helpers import fill


@pytest.fixture(autouse=True)
def elsewhere_and_quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run the command in a folder without results, with recorded speeds and a roofline that is measured once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(doctor, "BLOCKS", ((2, 2),))
    monkeypatch.setattr(doctor, "roofline", partial(doctor.roofline, seconds=0.0))
    told = [doctor.Speed("exact", "so", 0.02, 0.01), doctor.Speed("polynomial", "so", 0.09, 0.03)]
    monkeypatch.setattr(doctor, "speeds", lambda: told)
    monkeypatch.setattr(doctor, "assumptions", lambda: {"cpu": [Measurement(each, 0.0) for each in ASSUMPTIONS]})


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def store(folder: Path) -> Path:
    fill(folder, [number.cell(seed=seed, x=1.0) for seed in range(3)], '{"y": 1.0}')
    return folder


def test_no_store() -> None:
    done = invoke()
    assert done.exit_code == 0
    assert "none: there is no folder results here, and no --store was given" in done.output


@pytest.mark.parametrize("given", [True, False])
def test_a_sound_store(tmp_path: Path, given: bool) -> None:
    store(tmp_path / "results")
    done = invoke("--store", "results") if given else invoke()
    assert done.exit_code == 0, done.output
    assert "results: 3 done; " in done.output
    assert "none: all checksums match" in done.output


def test_a_damaged_store(tmp_path: Path) -> None:
    folder = store(tmp_path / "mine")
    with closing(sqlite3.connect(folder / "store.sqlite")) as connection, connection:
        connection.execute("UPDATE cells SET result = '{\"y\": 2.0}' WHERE seed = 1")
    done = invoke("--store", str(folder))
    assert done.exit_code == 1
    assert "the row does not match its checksum" in done.output
    assert f"`separatrix store verify --store {folder}`" in done.output.replace("\n", "")
    health = store_health(folder)
    assert health.cells == {"done": 2}
    assert health.runs == 0
    assert [what.partition(": ")[0] for what in health.damages] == [number.cell(seed=1, x=1.0).key[:12]]
    assert health.bytes >= (folder / "store.sqlite").stat().st_size


def test_a_missing_store() -> None:
    done = invoke("--store", "nowhere")
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert "nowhere" in done.output


def test_speeds_are_printed() -> None:
    output = invoke().output
    assert "20.0 ms, 2.00 times the cost model's (so)" in output
    assert "90.0 ms, 3.00 times the cost model's (so)" in output
    assert "polynomial / exact is 1.50 times the cost model's" in output


def test_speeds_are_the_best_of_several_and_shown_with_the_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    clock = iter(range(10**6))
    exact, polynomial = doctor.speeds(seconds=0.0, clock=lambda: next(clock))
    assert (exact.method, polynomial.method) == ("exact", "polynomial")
    assert exact.seconds == polynomial.seconds == 1
    assert exact.reckoned == 1e-9 * exact_cost(Shape(1, 1024, (1024,), 64, 64), False).time
    assert exact.factor == 1 / exact.reckoned
    assert "rank " in polynomial.what
    assert 0 < polynomial.reckoned < 60


def test_the_kernels_that_run_are_printed() -> None:
    found = native()
    told = invoke().output
    assert f"{found.architecture}. {found.reason}" in told or f"none: plain PyTorch is used. {found.reason}" in told


class Library:
    """A library with kernels for three architectures, two of which the processor supports."""

    NAMES = (b"wide", b"narrow", b"plain", None)

    def separatrix_architecture(self, number: int) -> bytes | None:
        return self.NAMES[number]

    def separatrix_runs(self, name: bytes) -> bool:
        return name != b"wide"


def test_other_kernels_and_those_that_do_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Native(Library(), "narrow", "It is the best.", threads=True)
    monkeypatch.setattr(doctor, "native", lambda: found)
    assert doctor.kernels() == (
        "narrow. It is the best. They run on PyTorch's threads. Others: wide, which this processor does not run; plain."
    )


def test_kernels_on_one_thread_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "native", lambda: Native(Library(), "narrow", "It is the best."))
    assert "They run on one thread, because this build of PyTorch does not share its threads." in doctor.kernels()


def test_the_kernels_have_the_threads_that_pytorch_lends() -> None:
    found = native()
    assert found.threads == (found.library is not None)


@pytest.mark.parametrize(
    ("asked", "file", "compiler", "advice"),
    [
        ("none", True, None, "Without that variable the kernels run."),
        ("", False, None, "Install a C++ compiler and then the package again."),
        ("", False, "/bin/c++", "A C++ compiler was found, /bin/c++: reinstall the package (pip install -v"),
        ("", True, None, "Rebuild it by `make native` or `pip install`."),
    ],
)
def test_without_kernels_the_doctor_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: str, file: bool, compiler: str | None, advice: str
) -> None:
    monkeypatch.setenv("SEPARATRIX_ISA", asked)
    monkeypatch.setattr(doctor, "native", lambda: Native(None, "none", "So."))
    monkeypatch.setattr(doctor, "FILE", tmp_path / ("" if file else "missing"))
    monkeypatch.setattr(shutil, "which", lambda _: compiler)
    assert doctor.kernels().startswith(f"none: plain PyTorch is used. So. {advice}")
    assert f"none: plain PyTorch is used. So. {advice}" in invoke().output


def test_the_last_line_says_whether_certificates_are_valid() -> None:
    done = invoke()
    assert done.exit_code == 0
    assert done.output.splitlines()[-1].startswith("Certificates are valid on this machine")
    for each in ASSUMPTIONS:
        assert each.statement in done.output


def test_certificates_that_are_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output has one line with the assumption and the measurement, and runs no certified call, which may fail."""
    found = [Measurement(each, 0.0) for each in ASSUMPTIONS]
    found[4] = Measurement(ASSUMPTIONS[4], 20.5)
    monkeypatch.setattr(doctor, "assumptions", lambda: {"cpu": found})
    monkeypatch.setattr(doctor, "speeds", lambda: pytest.fail("there is no certificate to be had"))
    monkeypatch.setattr(doctor, "self_checks", lambda: pytest.fail("there is no certificate to be had"))
    done = invoke()
    assert done.exit_code == 1
    last = done.output.splitlines()[-1]
    assert last.startswith(
        "Certificates are NOT valid on this machine. Assumption: exp(x) has an error of at most 4 u;"
    )
    assert last.endswith("Measured: 20.5.")
    assert done.output.count("BROKEN") == 1


def test_the_doctor_reports_modes(forked) -> None:
    """In a process that flushes subnormal numbers, the command prints the line and exits with 1."""
    code = (
        "import torch; torch.set_num_threads(2); torch.set_flush_denormal(True)\nfrom separatrix import doctor; "
        "doctor.BLOCKS = ((2, 2),)\nfrom separatrix.commands.app import app; app(['doctor'])"
    )
    done = forked(code, COLUMNS="400")
    assert (done.returncode, done.stderr) == (1, "")
    last = done.stdout.splitlines()[-1]
    assert last.startswith(
        "Certificates are NOT valid on this machine. Assumption: No thread flushes subnormal numbers to zero"
    )
    assert "torch.set_flush_denormal(False)" in last


def test_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    measured = doctor.assumptions()
    assert {each.assumption for each in measured["cpu"]} == set(ASSUMPTIONS)


MAIN = "from separatrix.commands.main import main; main()"


def test_doctor(forked) -> None:
    done = forked(MAIN, "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for word in (torch.__version__, "torch threads", "roofline, d = 16", "roofline, d = 64"):
        assert word in done.stdout
    assert all(name in done.stdout for name in operator.METHODS)
    assert "exact" in operator.METHODS
    assert done.stdout.count("passed") == len(operator.METHODS)


def test_a_failing_method_fails_doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # without a store of results
    right = operator.tensor_attention

    def wrong(*arguments, method, **options):
        return [2 * x if method == "polynomial" else x for x in right(*arguments, method=method, **options)]

    monkeypatch.setattr(operator, "tensor_attention", wrong)
    monkeypatch.setattr(doctor, "BLOCKS", ((2, 2),))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert done.output.count("passed") == done.output.count("FAILED") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda out, lse: (out + 1e-9, lse),
        lambda out, lse: (out, lse + 1e-9),
        lambda out, lse: (out * torch.nan, lse),
        lambda out, lse: (out, lse.index_fill(-1, torch.tensor([0]), torch.nan)),
        lambda out, lse: (out.float(), lse),
    ],
    ids=["output", "lse", "NaN output", "one NaN lse", "float32"],
)
def test_self_check_can_fail(wrong) -> None:
    assert doctor.self_check("right", reference.tensor_attention).passed
    assert not doctor.self_check("wrong", lambda *QKV: wrong(*reference.tensor_attention(*QKV))).passed


def test_roofline_counts_four_flops_a_score_and_column(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))
    monkeypatch.setattr(doctor, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(doctor, "BLOCKS", ((3, 5), (4, 7), (2, 6)))
    best = doctor.roofline(2, seconds=100.0)
    assert (best.width, best.rows, best.columns) == (2, 4, 7)
    assert best.gflops == pytest.approx(4 * 4 * 7 * 2 / 3 / 1e9)


def test_extras_are_those_of_the_project(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = {
        requirement.split(">")[0]: extra
        for extra, requirements in project["optional-dependencies"].items()
        for requirement in requirements
        if extra != "all" and not requirement.startswith("separatrix[")
    }
    assert declared == doctor.EXTRAS
    assert tuple(requirement.split(">")[0] for requirement in project["dependencies"]) == doctor.CORE


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # without a store of results
    monkeypatch.setattr(doctor, "EXTRAS", {"no-such-package": "lab"})
    monkeypatch.setattr(doctor, "BLOCKS", ((2, 2),))
    assert "not installed: pip install 'separatrix[lab]'" in CliRunner().invoke(app, ["doctor"]).output


@pytest.mark.parametrize("has_triton", [True, False])
def test_the_engine_of_a_gpu_is_printed(monkeypatch: pytest.MonkeyPatch, has_triton: bool) -> None:
    monkeypatch.setattr(doctor, "installed", lambda: has_triton)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = "not yet timed on hardware" if has_triton else "because Triton 3.6 or later is not installed"
    assert doctor.gpu_engine().startswith("none that PyTorch can use.")
    assert told in doctor.gpu_engine()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda at: "H100")
    assert doctor.gpu_engine().startswith("H100: ")
    assert told in dict(doctor.machine())["GPU"]
