from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.lab import experiment
from separatrix.lab.sweep import load, parse
from tests.lab.app import app
from tests.lab.helpers import environment


@experiment(version=3, name="tests.plane")
def plane(
    x: float, n: int = 1, kind: Literal["a", "b"] = "a", widths: list[int] | None = None, *, seed: int
) -> dict[str, float]:
    return {"y": x * n + seed}


HEAD = 'experiment = "tests.plane"\ntrials = 2\n'


def test_product_by_hand() -> None:
    sweep = parse(HEAD + '[baseline]\nkind = "b"\n[axes]\nx = [1, 2.5]\nn = [3, 4, 5]')
    by_hand = [
        plane.cell(seed=seed, x=x, n=n, kind="b", widths=None) for x, n, seed in product([1.0, 2.5], [3, 4, 5], [0, 1])
    ]
    assert list(sweep) == by_hand
    assert len(sweep) == 12
    assert by_hand[0].parameters == '{"kind":"b","n":3,"widths":null,"x":1.0}'


def test_one_at_a_time_by_hand() -> None:
    sweep = parse(
        'experiment = "tests.plane"\ncombine = "one-at-a-time"\nseeds = [7]\n'
        "[baseline]\nx = 1.0\nn = 3\n[axes]\nx = [1.0, 2.0]\nn = [3, 4]\nwidths = [[8], [8, 8]]"
    )
    points = [{"x": 1.0, "n": 3}, {"x": 2.0, "n": 3}, {"x": 1.0, "n": 4}]
    points += [{"x": 1.0, "n": 3, "widths": widths} for widths in ([8], [8, 8])]
    assert list(sweep) == [plane.cell(seed=7, **point) for point in points]
    assert len(sweep) == 5


@pytest.mark.parametrize("combine", ["product", "one-at-a-time"])
def test_no_axes_is_the_baseline(combine: str) -> None:
    sweep = parse(f'combine = "{combine}"\n' + HEAD + "[baseline]\nx = 2")
    assert list(sweep) == [plane.cell(seed=0, x=2.0), plane.cell(seed=1, x=2.0)]
    assert len(sweep) == 2


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("{from = 0.1, to = 0.7, step = 0.1}", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        ("{from = 3, to = 1, step = -1}", [3.0, 2.0, 1.0]),
        ("{from = 1e-6, to = 1, factor = 10}", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0]),
        ("{from = 8, to = 1, factor = 0.5}", [8.0, 4.0, 2.0, 1.0]),
        ("{from = 2, to = 2, step = 5}", [2.0]),
        ("[inf, -inf]", [float("inf"), float("-inf")]),
    ],
)
def test_ranges_are_exact(written: str, values: list[float]) -> None:
    assert parse(f"{HEAD}[axes]\nx = {written}").axes["x"] == values


def test_a_range_of_integers_is_of_integers() -> None:
    assert parse(f"{HEAD}[baseline]\nx=0\n[axes]\nn = {{from = 64, to = 1024, factor = 2}}").axes["n"] == [
        64,
        128,
        256,
        512,
        1024,
    ]


@given(st.integers(-1000, 1000), st.integers(1, 50), st.integers(0, 40), st.integers(0, 6))
def test_a_range_equals_its_values_written_out(first: int, step: int, count: int, places: int) -> None:
    def decimal(value: int) -> str:
        return f"{value}e-{places}"

    table = f"{{from = {decimal(first)}, to = {decimal(first + count * step)}, step = {decimal(step)}}}"
    listed = ", ".join(decimal(first + i * step) for i in range(count + 1))
    assert parse(f"{HEAD}[axes]\nx = {table}").axes == parse(f"{HEAD}[axes]\nx = [{listed}]").axes


def test_many_seeds_take_no_memory() -> None:
    sweep = parse('experiment = "tests.plane"\ntrials = 1_000_000_000_000\n[axes]\nx = [0, 1]')
    assert len(sweep) == 2 * 10**12
    assert next(iter(sweep)) == plane.cell(seed=0, x=0.0)
    assert parse('experiment = "tests.plane"\nseeds = {from = 3, to = 9, step = 3}\n[axes]\nx = [0]').seeds == [3, 6, 9]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("trials = 1", "experiment: expected a string, got nothing."),
        ("experiment = 3\ntrials = 1", "experiment: expected a string, got 3."),
        ('experiment = "os.system"\ntrials = 1', "experiment: expected the name of a registered experiment (nearest: "),
        (HEAD + "axis = 1", "axis: expected experiment, combine, trials or seeds, baseline, axes, got 'axis'."),
        (HEAD + 'combine = "zip"', "combine: expected 'product' or 'one-at-a-time', got 'zip'."),
        (HEAD + "combine = 1.5", "combine: expected a string, got 1.5."),
        (HEAD + "seeds = [1]", "trials: expected either trials or seeds, got both."),
        ('experiment = "tests.plane"', "trials: expected either trials or seeds, got neither."),
        ('experiment = "tests.plane"\ntrials = 0', "trials: expected an integer from 1 to 2^63 - 1, got 0."),
        ('experiment = "tests.plane"\ntrials = 9223372036854775808', "trials: expected an integer from 1 to 2^63 - 1"),
        ('experiment = "tests.plane"\ntrials = 2.0', "trials: expected an integer >= 1, got 2.0."),
        (
            'experiment = "tests.plane"\nseeds = []',
            "seeds: expected a list of integers >= 0, or a range of them, got [].",
        ),
        ('experiment = "tests.plane"\nseeds = [1, -2]', "seeds[1]: expected an integer from 0 to 2^63 - 1, got -2."),
        ('experiment = "tests.plane"\nseeds = [1, 1]', "seeds[1]: expected a value that did not come before, got 1."),
        (HEAD + "baseline = 3", "baseline: expected a table, got 3."),
        (HEAD + "[baseline]\nz = 3", "baseline.z: expected a parameter of tests.plane (x, n, kind, widths), got 'z'."),
        (
            HEAD + "[baseline]\nseed = 3",
            "baseline.seed: expected a parameter of tests.plane (x, n, kind, widths), got 'seed'.",
        ),
        (HEAD + "[baseline]\nx = 'one'", "baseline.x: expected a number, got 'one'."),
        (HEAD + "[baseline]\nx = nan", "baseline.x: expected a number, got nan."),
        (HEAD + "[baseline]\nx = 1979-05-27", "baseline.x: expected a number, got datetime.date(1979, 5, 27)."),
        (HEAD + "[baseline]\nx = 0\nn = 1.0", "baseline.n: expected an integer, got 1.0."),
        (HEAD + "[baseline]\nx = 0\nn = true", "baseline.n: expected an integer, got True."),
        (HEAD + '[baseline]\nx = 0\nkind = "c"', "baseline.kind: expected 'a' or 'b', got 'c'."),
        (
            HEAD + "[baseline]\nx = 0\nwidths = [1, 2.5]",
            "baseline.widths: expected a list of integers or None, got [1, 2.5].",
        ),
        (HEAD + "[axes]\nz = [3]", "axes.z: expected a parameter of tests.plane (x, n, kind, widths), got 'z'."),
        (HEAD + "[axes]\nx = 3", "axes.x: expected a list of values, or a range { from, to, step or factor }, got 3."),
        (
            HEAD + "[axes]\nx = []",
            "axes.x: expected a list of values, or a range { from, to, step or factor }, got [].",
        ),
        (HEAD + "[axes]\nx = [0, 'b']", "axes.x[1]: expected a number, got 'b'."),
        (HEAD + "[axes]\nx = [1, 2, 1.0]", "axes.x[2]: expected a value that did not come before, got 1.0."),
        (HEAD + "[axes]\nx = {from = 1, to = 2}", "axes.x: expected one of step and factor, got neither."),
        (
            HEAD + "[axes]\nx = {from = 1, to = 2, step = 1, factor = 2}",
            "axes.x: expected one of step and factor, got both.",
        ),
        (HEAD + "[axes]\nx = {to = 2, step = 1}", "axes.x.from: expected a number, got nothing."),
        (HEAD + "[axes]\nx = {from = 1, to = 'b', step = 1}", "axes.x.to: expected a number, got 'b'."),
        (HEAD + "[axes]\nx = {from = 1, to = inf, step = 1}", "axes.x.to: expected a number, got inf."),
        (HEAD + "[axes]\nx = {from = 1, to = 2, step = true}", "axes.x.step: expected a number, got True."),
        (HEAD + "[axes]\nx = {from = 1, to = 2, step = 0.3}", "axes.x.to: expected a value that the steps reach"),
        (HEAD + "[axes]\nx = {from = 1, to = 2, step = 0}", "axes.x.to: expected a value that the steps reach"),
        (HEAD + "[axes]\nx = {from = 1, to = 2, factor = 1}", "axes.x.to: expected a value that the steps reach"),
        (HEAD + "[axes]\nx = {from = 1, to = 2, factor = 0.5}", "axes.x.to: expected a value that the steps reach"),
        (
            HEAD + "[axes]\nx = {from = 0, to = 2e9, step = 1}",
            "axes.x.to: expected a value that the steps reach, within 100,000 values",
        ),
        (HEAD + "[axes]\nx = {from = 1, to = 2, step = -1}", "axes.x.to: expected a value that the steps reach"),
        (HEAD + "[axes]\nx = {from = -1, to = 2, factor = 2}", "axes.x.to: expected a value that the steps reach"),
        (
            HEAD + "[axes]\nx = {from = 1, to = 2, factor = 1.0000001}",
            "axes.x.to: expected a value that the steps reach",
        ),
        (HEAD + "[axes]\nx = {from = 1, to = -2, factor = -2}", "axes.x.to: expected a value that the steps reach"),
        (
            HEAD + "[axes]\nn = [1]",
            "baseline.x: expected a value, because tests.plane has no default for it, got nothing.",
        ),
        ('combine = "one-at-a-time"\n' + HEAD + "[axes]\nx = [1]\nn = [2]", "baseline.x: expected a value, because"),
    ],
)
def test_a_bad_field_is_named(text: str, told: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse(text)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\nb = = 2", 2), ("a = 1\n\n\n[axes\nx = 1", 4), ("a = 1\na = 2", 2), ("a = [1,\n2", 2)]
)
def test_bad_syntax_names_the_line(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    with pytest.raises(SeparatrixError, match=rf"sweep\.toml is not TOML: .*at line {line}, "):
        load(file)


def test_a_file_is_named_in_each_error(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(HEAD + "[axes]\nx = 3")
    with pytest.raises(ArgumentError, match=r"sweep\.toml: axes\.x: expected"):
        load(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SeparatrixError, match=r"sweep\.toml is not text in UTF-8"):
        load(file)
    with pytest.raises(SeparatrixError, match=r"nowhere\.toml cannot be read: No such file"):
        load(tmp_path / "nowhere.toml")
    with pytest.raises(SeparatrixError, match="cannot be read: Is a directory"):
        load(tmp_path)


RANGE = HEAD + "[axes]\nx = {{from = {}, to = {}, {} = {}}}"
HOSTILE = {
    "a huge number": RANGE.format(1, "1e99999999", "step", 1),
    "a larger one": RANGE.format(1, "1e99999999999999999999", "step", 1),
    "a huge step": RANGE.format(1, 2, "step", "1e99999999"),
    "a huge factor": RANGE.format(1, 2, "factor", "1e99999999"),
    "a tiny step": RANGE.format(0, 1, "step", "1e-99999999"),
    "a small step": RANGE.format(0, 1, "step", "1e-300"),
    "a tiny factor": RANGE.format(1, 2, "factor", "1." + "0" * 300 + "1"),
    "a factor of many digits": RANGE.format("1e-300", "1e300", "factor", "1." + "1234567890" * 35),
    "steps below a float's": RANGE.format(1, "1.0000000000000001", "step", "1e-17"),
    "two million points": RANGE.format(0, 2_000_000, "step", 1),
    "two million values": HEAD + "[axes]\nx = [" + "1," * 2_000_000 + "]",
    "a list as long as may be": HEAD + "[axes]\nn = [" + ",".join(map(str, range(40_000))) + ",0]",
    "deep lists": HEAD + "[baseline]\nx = " + "[" * 100_000 + "]" * 100_000,
    "less deep lists": HEAD + "[baseline]\nx = " + "[" * 200 + "]" * 200,
    "deep tables": HEAD + "[baseline]\nx = " + "{a=" * 50_000 + "1" + "}" * 50_000,
    "a dotted key": HEAD + "a." * 20_000 + "a = 1",
    "a dotted header": HEAD + "[" + "a." * 20_000 + "a]",
    "a dotted key in quotes": HEAD + '"\\"" . ' * 5_000 + "a = 1",
    "a dotted key in single quotes": HEAD + "'a'." * 10_000 + "a = 1",
    "a dotted key in a list": HEAD + "[baseline]\nx = {" + "a." * 20_000 + "a = 1}",
    "a long integer": HEAD + "[baseline]\nx = " + "9" * 5_000,
    "a longer integer": HEAD + "[baseline]\nx = " + "9" * 200_000,
    "a long integer in hex": HEAD + "[baseline]\nx = 0x" + "f" * 5_000,
    "a long integer in a list": HEAD + "[axes]\nn = [0x" + "f" * 5_000 + "]",
    "a long integer in a range": RANGE.format(0, "0x" + "f" * 5_000, "step", 1),
    "long integers and a step that is none": RANGE.format(0, "1" + "0" * 350, "step", "1" + "0" * 200 + ".0"),
    "a long integer and a factor that is none": RANGE.format("1" + "0" * 350, "5" + "0" * 349, "factor", 0.5),
    "a long trial count": 'experiment = "tests.plane"\ntrials = 0x' + "f" * 5_000 + "\n[axes]\nx = [1]",
    "a long seed": 'experiment = "tests.plane"\nseeds = [0x' + "f" * 5_000 + "]\n[axes]\nx = [1]",
    "a long integer for a name": "experiment = 0x" + "f" * 5_000,
    "a long fraction": HEAD + "[baseline]\nx = 0." + "9" * 200_000,
    "too many cells": f'experiment = "tests.plane"\ntrials = {2**63 - 1}\n[axes]\nx = [1, 2]',
    "too many cells, one at a time": (
        f'experiment = "tests.plane"\ncombine = "one-at-a-time"\ntrials = {2**63 - 1}\n'
        "[baseline]\nx = 3\n[axes]\nx = [1, 2]\nn = [5, 6]"
    ),
    "a number too large for a float": HEAD + "[baseline]\nx = 1e309",
    "a number too small for a float": HEAD + "[baseline]\nx = 1e-400",
    "a long name": HEAD + "[axes]\n" + "a" * 200_000 + " = [1]",
    "a long text": HEAD + "[baseline]\nx = '" + "a" * 200_000 + "'",
    "a long name of an experiment": f'experiment = "{"a" * 200_000}"',
    "a long key twice": HEAD + f"{'a' * 100_000} = 1\n{'a' * 100_000} = 2",
    "a long table twice": HEAD + f"[{'a' * 100_000}]\n[{'a' * 100_000}]",
    "a long text for a choice": HEAD + f"[axes]\nx = [1]\n[baseline]\nkind = '{'a' * 200_000}'",
    "a long text for a combination": HEAD + f"combine = '{'a' * 200_000}'\n[axes]\nx = [1]",
    "many quotes": HEAD + "[baseline]\nx = " + "'\"" * 100_000,
    "many tables": "\n".join(f"[t{i}]" for i in range(20_000)),
    "many arrays of tables": "[[a]]\n" * 40_000,
    "a byte that is no text": "\udcff",
}


@pytest.mark.skipif(sys.platform == "win32", reason="the system has no such limits")
def test_hostile_files_are_refused_in_a_sentence_with_little_time_and_memory(tmp_path: Path) -> None:
    """Hostile files are refused in a process with a limit of 900 s of CPU time and 1 GB of memory."""
    for i, text in enumerate(HOSTILE.values()):
        (tmp_path / f"{i:02}.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    os.mkfifo(tmp_path / "pipe.toml")
    code = (
        "import json, resource, sys; from pathlib import Path\nfrom separatrix.errors import SeparatrixError; from "
        "separatrix.lab.sweep import load\nimport tests.lab.test_sweep\nresource.setrlimit(resource.RLIMIT_CPU, "
        "(int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 900,) * 2)\nresource.setrlimit(resource.RLIMIT_AS, "
        "(2**30,) * 2)\ntold = {}\nfor file in sorted(Path(sys.argv[1]).glob('*.toml')):\n    try: told[file.name] = "
        "f'accepted: {len(load(file))}'\n    except SeparatrixError as error: told[file.name] = "
        "str(error)\nprint(json.dumps(told))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    parsed = json.loads(done.stdout)
    assert len(parsed) == len(HOSTILE) + 1
    for kind, sentence in zip([*HOSTILE, "a pipe that nobody writes"], parsed.values(), strict=True):
        assert sentence.startswith(str(tmp_path)), kind
        assert len(sentence) < 1500, kind


def test_a_hostile_file_is_a_sentence_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    for kind in ("a huge number", "a dotted key", "a long integer in hex", "a long integer for a name", "deep lists"):
        file.write_text(HOSTILE[kind])
        done = CliRunner().invoke(app, ["sweep", str(file), "--store", str(tmp_path / "r"), "--in-process"])
        assert done.exit_code == 2, kind
        assert done.stderr.startswith(f"separatrix: {file}"), kind
    assert not (tmp_path / "r").exists()
