from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import separatrix
from separatrix import doctor
from separatrix.attention import operator, reference
from separatrix.commands.app import app

MAIN = "from separatrix.commands.main import main; main()"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["doctor", "--help"], ["reproduce", "--help"], []])
def test_help_does_not_import_torch(run, arguments: list[str]) -> None:
    end = "atexit.register(lambda: print(*sorted({'torch', 'numpy'} & set(sys.modules)), sep=',', file=sys.stderr))"
    done = run(f"import atexit, sys; {end}; {MAIN}", *arguments)
    assert done.stderr == "\n"
    assert done.stdout


def test_version(run) -> None:
    done = run(MAIN, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"separatrix {separatrix.__version__}\n", "")


def test_help_names_the_commands(run) -> None:
    done = run(MAIN, "--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("doctor", "reproduce", "--version"))


def test_without_the_extra_one_line_says_so(run) -> None:
    done = run(f"import sys; sys.modules['typer'] = None; {MAIN}", "--help")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "pip install 'separatrix[lab]'" in done.stderr


def test_another_missing_module_is_not_blamed_on_the_extra(run) -> None:
    done = run(f"import sys; sys.modules['separatrix.commands.app'] = None; {MAIN}", "--help")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "separatrix[lab]" not in done.stderr


def test_doctor(run) -> None:
    done = run(MAIN, "doctor")
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
        if extra not in ("all", "dev", "docs") and not requirement.startswith("separatrix[")
    }
    assert declared == doctor.EXTRAS
    assert tuple(requirement.split(">")[0] for requirement in project["dependencies"]) == doctor.CORE


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # without a store of results
    monkeypatch.setattr(doctor, "EXTRAS", {"no-such-package": "lab"})
    monkeypatch.setattr(doctor, "BLOCKS", ((2, 2),))
    assert "not installed: pip install 'separatrix[lab]'" in CliRunner().invoke(app, ["doctor"]).output


def test_plan(run) -> None:
    done = run(MAIN, "plan", "--n", "1000000", "--d", "8", "--bound", "0.9", "--order", "3", "--tolerance", "1e-3")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("polynomial", "rank 495", "any", "(ln n)^(1/k)"))


@pytest.mark.parametrize(
    "bad", [("--n", "0"), ("--d", "-1"), ("--bound", "nan"), ("--tolerance", "0"), ("--order", "1")]
)
def test_plan_refuses(run, bad) -> None:
    right = {"--n": "100", "--d": "8", "--bound": "1", "--order": "3", "--tolerance": "1e-3"}
    arguments = [word for option in {**right, bad[0]: bad[1]}.items() for word in option]
    done = run(MAIN, "plan", *arguments)
    assert done.returncode == 2
    assert f"{bad[0]}: expected" in done.stderr
    assert "Traceback" not in done.stderr
