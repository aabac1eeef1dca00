"""Which tests are run for a change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.changed import changed_files, paths_for


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "src/separatrix/attention/near_linear/approximation/monomials.py",
            [
                "src/separatrix/attention/near_linear/approximation/monomials.py",
                "tests/attention/near_linear/approximation/test_monomials.py",
            ],
        ),
        (
            "src/separatrix/attention/near_linear/lanes.py",
            ["src/separatrix/attention/near_linear/lanes.py", "tests/attention/near_linear"],
        ),
        (
            "src/separatrix/claims/kronecker/lemma_c_5.py",
            [
                "src/separatrix/claims/kronecker/lemma_c_5.py",
                "tests/claims/test_registry.py::TestKronecker",
                "tests/claims/kronecker/test_lemma_c_5.py",
            ],
        ),
        (
            "src/separatrix/report/drawings/selection/equation_4.py",
            [
                "src/separatrix/report/drawings/selection/equation_4.py",
                "tests/report/drawings/test_registry.py::TestSelection",
            ],
        ),
        (
            "src/separatrix/studies/learning/join.py",
            [
                "src/separatrix/studies/learning/join.py",
                "tests/studies/test_verdicts.py",
                "tests/studies/learning/test_join.py",
            ],
        ),
        ("src/separatrix/errors.py", ["src/separatrix/errors.py"]),
        ("tests/attention/test_linear.py", ["tests/attention/test_linear.py"]),
        ("src/separatrix/native.py", ["src/separatrix/native.py", "tests/native"]),
        ("csrc/exponential.hpp", ["tests/native"]),
        ("README.md", []),
    ],
)
def test_the_paths_for_a_file(root: Path, name: str, expected: list[str]) -> None:
    assert list(paths_for(root, name)) == expected


def test_changed_files(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    git("init", "--quiet")
    for name in ("kept", "edited", "gone"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    (tmp_path / "edited").write_text("2")
    (tmp_path / "gone").unlink()
    (tmp_path / "new").write_text("3")
    assert changed_files(tmp_path, "HEAD") == ["edited", "new"]
