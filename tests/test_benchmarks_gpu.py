"""The kernels in Triton, compiled ahead of time: the saved table is that of the sources, and nothing in it spills."""

from __future__ import annotations

import doctest
import json

import pytest
import torch
import typer
from typer.testing import CliRunner

from benchmarks import __main__, gpu
from benchmarks.gpu import compiled, targets, timed
from separatrix.attention import reference
from separatrix.attention.dispatch.gpu import installed
from tests.contracts.attention_contract import draw
from tests.contracts.interpreter import interpreting

needs_triton = pytest.mark.skipif(
    not installed(), reason="No Triton, or one too old: it is in the group dev of pyproject.toml, for Linux."
)


@pytest.mark.parametrize("module", [compiled, targets, timed])
def test_docstrings(module):
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed


@needs_triton
def test_the_table_is_of_these_sources():
    """Otherwise: python -m benchmarks gpu --compile."""
    assert compiled.load()["digest"] == compiled.digest()


def test_everything_that_ships_is_in_the_table():
    rows = compiled.load()["rows"]
    assert [(row.target, row.kernel, row.kind, row.width, row.way) for row in rows] == list(compiled.configurations())


def test_nothing_spills_and_everything_fits():
    assert compiled.faults(compiled.load()["rows"]) == []


def test_a_spill_and_too_much_shared_memory_are_noticed():
    row = compiled.load()["rows"][0]
    bad = [type(row)(**{**vars(row), "spilled": 8}), type(row)(**{**vars(row), "shared": 1 << 20})]
    assert len(compiled.faults([row, *bad])) == 2


def test_half_types_are_for_matrix_units_and_wider_ones_are_not_on_nvidia():
    """What is proved of float32 and float64 holds for multiply-adds, and not for matrix units.

    A score of a half type is worth as many multiply-adds as its products have columns; a few kernels have more of their
    text outside of the innermost loop.
    """
    for row in compiled.load()["rows"]:
        if row.kind in ("bfloat16", "float16", "tf32"):
            assert row.matrix > 0, row
            assert row.per_score >= sum(compiled.PRODUCTS[row.kernel]) * row.width, row
        elif row.target != "gfx942":
            assert row.matrix == 0, row


def test_near_linear_kernels_have_no_matrix_units_and_nothing_inexact():
    """On no target: what certificates assume of them is that sums, products and multiply-adds are rounded correctly."""
    rows = [row for row in compiled.load()["rows"] if row.kernel in compiled.NEAR_LINEAR]
    assert {row.target for row in rows} == set(targets.TARGETS)
    assert {row.kernel for row in rows} == set(compiled.NEAR_LINEAR)
    assert all(row.matrix == row.inexact == 0 for row in rows)
    assert all(row.inexact > 0 for row in compiled.load()["rows"] if row.kernel == "attend")


def test_the_table_has_a_line_for_each_row():
    lines = (compiled.RESULTS / "gpu-compiled.json").read_text().splitlines()
    assert len(lines) == len(compiled.load()["rows"]) + 2


def test_the_markdown_is_of_the_same_table():
    assert (compiled.RESULTS / "gpu-compiled.md").read_text() == compiled.markdown(compiled.load()["rows"])


ONE = """
import json, sys
from dataclasses import asdict
sys.path.insert(0, sys.argv[1])
from benchmarks.gpu import compiled
one = ("sm_80", "attend", "bfloat16", 16, "nothing hidden")
ptx = compiled.make("sm_80", "attend", "float32", 16, "nothing hidden").asm["ptx"]
logarithm = ptx[ptx.index("fma.rn.ftz.f32") : ptx.rindex("fma.rn.ftz.f32")]
plain = ptx.count("fma.rn.f32"), logarithm.count("fma.rn.f32")
print(json.dumps([asdict(compiled.compile_one(*one)), sorted(compiled.inexact("cuda", ptx)), plain]))
"""


@needs_triton
@pytest.mark.timeout(1200)
def test_one_configuration_compiles_to_what_the_table_says(run, root, tmp_path):
    """And in float32 nothing is approximate or flushed but the exponential, the logarithm, and a score rounded up.

    The logarithm, after all sums, is the only place with fused operations that flush subnormal numbers.
    """
    done = run(ONE, str(root), TRITON_CACHE_DIR=str(tmp_path / "cache"), TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stderr
    found, inexact, (fused, in_logarithm) = json.loads(done.stdout)
    one = ("sm_80", "attend", "bfloat16", 16, "nothing hidden")
    rows = {(row.target, row.kernel, row.kind, row.width, row.way): row for row in compiled.load()["rows"]}
    assert {**found, "block": tuple(found["block"])} == vars(rows[one])
    assert inexact == ["cvt.rpi.ftz.f32.f32", "ex2.approx.ftz.f32", "fma.rn.ftz.f32"]
    assert fused > 0
    assert in_logarithm == 0


def test_without_a_gpu_the_benchmark_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    app = typer.Typer()
    app.command()(__main__.main)
    done = CliRunner().invoke(app, ["gpu", "--output", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (0, f"{gpu.NONE}\n")
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(app, ["exact", "--compile"]).exit_code == 2


@needs_triton
def test_the_checks_and_the_peers_of_the_timings(monkeypatch):
    """In the interpreter: the checks pass, an error is noticed, and fused attention over pairs is of order 3."""
    monkeypatch.setattr(timed, "SHAPES", ((1, 3, (2, 5), 4, 3), (1, 2, (1, 2, 3), 2, 2)))
    monkeypatch.setattr(timed, "NEAR_LINEAR", (3, 1, 1))
    with interpreting():
        made, near_linear = timed.checks("cpu"), timed.near_linear_checks("cpu")
        assert len(made) == 4 * 2 * 3
        assert len(near_linear) == 2 * 3
        assert all(row["right"] for row in (*made, *near_linear))
        monkeypatch.setattr(timed.gpu, "forward", lambda call, kept=timed.gpu.forward: [x + 1 for x in kept(call)])
        assert not any(row["right"] for row in timed.checks("cpu"))
    query, *sets = draw(0, 5, 2, 4, 3)
    found = timed.pairs_by_fused_attention(query, sets[:2], sets[2:])
    assert torch.allclose(found, reference.tensor_attention(query, sets[:2], sets[2:])[0], atol=1e-6)
    report = {"gpu": "one", "checks": [{"right": True}], "times": [{"what": "it", "forward": 0.5, "FBGEMM": "not"}]}
    assert timed.table(report) == "one: 1 of 1 results are right.\nit: forward 0.5, FBGEMM not"
