"""`python -m tests.changed [BASE]`: print the tests of the files changed since a commit (default HEAD).

A source file has the test file of its name in the mirrored folder, or the folder of its name there, or else all tests
of that folder, and its own docstrings. A file of claims or drawings of a paper also has the tests of all claims or
drawings of that paper, and a study the test of all verdicts of the studies. The tests of the C++ kernels are in
tests/native. A changed test file is run itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PAPERS = ("kronecker", "selection", "separation")


def changed_files(root: Path, base: str) -> list[str]:
    """The files that differ from a commit, including untracked files and excluding deleted ones."""
    asked = (["git", "diff", "--name-only", base], ["git", "ls-files", "--others", "--exclude-standard"])
    names: set[str] = set()
    for command in asked:
        names |= set(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines())
    return sorted(name for name in names if (root / name).is_file())


def paths_for(root: Path, name: str) -> Iterator[str]:
    """The tests of a file, as paths for pytest."""
    path = PurePosixPath(name)
    if path.parts[0] == "csrc":
        yield "tests/native"
    if path.suffix != ".py":
        return
    if path.parts[0] == "tests" and path.name.startswith("test_"):
        yield name
    elif path.parts[:2] == ("src", "separatrix"):
        yield name
        mirrored = PurePosixPath("tests", *path.parts[2:])
        folder, paper = mirrored.parent.parent, mirrored.parent.name
        registered = str(folder) in ("tests/claims", "tests/report/drawings") and paper in _PAPERS
        if registered:
            yield f"{folder}/test_registry.py::Test{paper.capitalize()}"
        if path.parts[2] == "studies":
            yield "tests/studies/test_verdicts.py"
        exact = mirrored.with_name(f"test_{path.name}")
        if (root / exact).is_file():
            yield str(exact)
        elif registered:
            return
        elif (root / mirrored.with_suffix("")).is_dir():
            yield str(mirrored.with_suffix(""))
        else:
            folder = mirrored.parent
            if folder != PurePosixPath("tests") and (root / folder).is_dir():
                yield str(folder)


def main() -> None:
    """Print the tests of the changed files."""
    root = Path(__file__).resolve().parents[1]
    found = {test for name in changed_files(root, *(sys.argv[1:] or ["HEAD"])) for test in paths_for(root, name)}
    inside = {path for path in found if any(str(parent) in found for parent in PurePosixPath(path).parents)}
    print("\n".join(sorted(found - inside)))


if __name__ == "__main__":
    main()
