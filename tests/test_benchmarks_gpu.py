"""The kernels in Triton, compiled ahead of time: the saved table is that of the sources, and nothing in it spills."""

from __future__ import annotations

import doctest
import json

import pytest

from benchmarks.gpu import compiled, targets
from separatrix.attention.exact.gpu.engine import installed

needs_triton = pytest.mark.skipif(
    not installed(), reason="Triton is not installed: it is in the group dev of pyproject.toml, for Linux."
)


@pytest.mark.parametrize("module", [compiled, targets])
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


def test_half_types_are_for_matrix_units_and_float32_is_not_on_nvidia():
    """What is proved of float32 holds for multiply-adds, and not for matrix units."""
    for row in compiled.load()["rows"]:
        if row.kind in ("bfloat16", "float16", "tf32"):
            assert row.matrix > 0, row
        elif row.kind == "float32" and row.target != "gfx942":
            assert row.matrix == 0, row


def test_the_markdown_is_of_the_same_table():
    assert (compiled.RESULTS / "gpu-compiled.md").read_text() == compiled.markdown(compiled.load()["rows"])


ONE = """
import json, sys
from dataclasses import asdict
sys.path.insert(0, sys.argv[1])
from benchmarks.gpu import compiled
print(json.dumps(asdict(compiled.compile_one("sm_80", "attend", "bfloat16", 16, "nothing hidden"))))
"""


@needs_triton
@pytest.mark.timeout(240)
def test_one_configuration_compiles_to_what_the_table_says(run, root, tmp_path):
    done = run(ONE, str(root), TRITON_CACHE_DIR=str(tmp_path / "cache"), TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (expected,) = [
        vars(row)
        for row in compiled.load()["rows"]
        if (row.target, row.kernel, row.kind, row.width, row.way)
        == ("sm_80", "attend", "bfloat16", 16, "nothing hidden")
    ]
    assert {**found, "block": tuple(found["block"])} == expected
