from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import separatrix
from separatrix.lab import canonical_json, provenance

LAB = Path(separatrix.__file__).parent / "lab"


def test_the_facts() -> None:
    facts = canonical_json.read(provenance.origin())
    assert facts["separatrix"] == separatrix.__version__
    assert facts["torch"].startswith("2.")
    assert "cores" in facts["cpu"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_state_of_a_checkout(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        options = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "core.hooksPath=nowhere",
            "-c",
            "commit.gpgsign=false",
        ]
        return subprocess.run(
            ["git", *options, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    package = tmp_path / "package"
    package.mkdir()
    assert provenance.git_state(package) is None
    git("init", "--quiet")
    (tmp_path / "README").write_text("one")
    git("add", "README")
    git("commit", "--quiet", "-m", "one")
    (package / "code.py").write_text("x = 1")
    assert provenance.git_state(package) is None  # the file is in a checkout, but not tracked by it
    git("add", "package")
    git("commit", "--quiet", "-m", "two")
    commit = git("rev-parse", "HEAD").strip()
    assert provenance.git_state(package) == commit
    (tmp_path / "README").write_text("two")
    assert provenance.git_state(package) == commit
    (package / "code.py").write_text("x = 2")
    assert provenance.git_state(package) == f"{commit}+changes"
    git("checkout", "--quiet", "package")
    (package / "more.py").write_text("y = 2")
    assert provenance.git_state(package) == f"{commit}+changes"


def test_without_git_the_state_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_state(LAB) is None


def test_the_lab_knows_nothing_of_the_science(run) -> None:
    names = ", ".join(f"separatrix.lab.{path.stem}" for path in sorted(LAB.glob("*.py")))
    code = (
        f"import sys, {names}\nknown = "
        "{'lab', 'errors', 'checks', 'children', 'files', 'processor'}\nrooms = {name.split('.')[1] for name in "
        "sys.modules if name.startswith('separatrix.')}\nprint(sorted(rooms - known), 'torch' in sys.modules)"
    )
    assert run(code).stdout == "[] False\n"
