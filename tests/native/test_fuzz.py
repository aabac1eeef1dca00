"""Build the programs of csrc/tests, which compare kernels with literal loops, and run them on some thousand calls."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from separatrix.native import runnable


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_calls_agree_with_literal_loops(root: Path, library: ctypes.CDLL, tmp_path: Path) -> None:
    """Every architecture that this processor supports, and those whose names begin with "lowered".

    `make sanitize` does this under sanitisers.
    """
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("There is no C++ compiler.")
    scripts = Path(sys.executable).parent
    configure = [scripts / "cmake", "-S", root / "csrc", "-B", tmp_path, "-G", "Ninja", "-DSEPARATRIX_TESTS=ON"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={scripts / 'ninja'}", "-DSEPARATRIX_LOWERED=ON"]
    said = ""
    programs = ([tmp_path / name, "3", "3000"] for name in ("fuzz", "near_linear"))
    for command in (configure, [scripts / "cmake", "--build", tmp_path], *programs):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stdout
    print(said)
    description = (
        r"^(\w+) +3000 cases of seed 3, (\d+) numbers: .* (\d+) queries that attend a NaN, (\d+) numbers of half types$"
    )
    ran = {name: [int(count) for count in counts] for name, *counts in re.findall(description, said, re.M)}
    assert set(runnable(library)) <= set(ran)
    assert all(numbers > 10**6 and planted > 100 and halves > 10**5 for numbers, planted, halves in ran.values())
    narrow = {name: int(calls) for name, calls in re.findall(r"^(\w+) .* in bfloat16 \((\d+) calls\)", said, re.M)}
    assert all((calls > 100) == name.endswith(("_bf16", "_amx")) for name, calls in narrow.items())
    assert "avx2" not in ran or {"lowered", "lowered_bf16", "lowered_amx"} <= set(ran)
    near_linear = r"^(\w+) +3000 cases of seed 3, (\d+) numbers; the largest errors"
    numbers = {name: int(count) for name, count in re.findall(near_linear, said, re.M)}
    assert set(numbers) == set(ran)
    assert all(count > 10**6 for count in numbers.values())
