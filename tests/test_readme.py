from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from separatrix import studies
from separatrix.claims.counts import count_recorded
from separatrix.claims.errata import slips
from separatrix.claims.ledger import Rank, Verdict

README = Path(__file__).resolve().parents[1] / "README.md"
FENCE = re.compile(r"^(`{3,}|~{3,}) *(\w*)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    """The code of every fence whose language is py, python, python3, pycon ..."""
    return [code for _, language, code in FENCE.findall(text) if language.lower().startswith("py")]


def test_finding_blocks() -> None:
    text = "```sh\nmake\n```\n\n```python\nx = 1\n```\nthen\n~~~py title\ny = 2\n\nz = 3\n~~~\n"
    assert python_blocks(text) == ["x = 1\n", "y = 2\n\nz = 3\n"]


def test_there_is_an_example() -> None:
    assert python_blocks(README.read_text())


@pytest.mark.parametrize("number", range(len(python_blocks(README.read_text())) if README.exists() else 0))
def test_example_runs_as_printed(forked, number: int) -> None:
    done = forked(python_blocks(README.read_text())[number])
    assert (done.returncode, done.stderr) == (0, "")


def test_it_counts_the_claims_as_the_ledger_does() -> None:
    studies.load()
    count = count_recorded()
    text = " ".join(README.read_text().split())
    decided = count.claims - count.verdicts[Verdict.DEFINED] - count.verdicts[Verdict.ILLUSTRATED]
    assert f"{count.claims} claims of three papers and of studies beyond them" in text
    assert f"{count.verdicts[Verdict.DEFINED]} are definitions" in text
    assert f"and {decided} are checked by programs that can fail" in text
    assert f"Of {len(slips())} [errata]" in text
    assert f"{sum(slip.rank is Rank.STATEMENT for slip in slips())} change a statement" in text
    assert f"reruns the {count.quick} quick claims" in text


def requirements(project: dict[str, Any]) -> dict[str, Version]:
    """The oldest version of each package that the project requires."""
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    asked = [Requirement(each) for each in [*project["dependencies"], *extras] if not each.startswith("separatrix[")]
    return {each.name: Version(str(each.specifier).removeprefix(">=")) for each in asked}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads(README.with_name("pyproject.toml").read_text())["project"]


def test_it_states_the_oldest_versions(project: dict[str, Any]) -> None:
    python, torch = project["requires-python"].removeprefix(">="), requirements(project)["torch"]
    assert f"It needs Python {python} or newer and PyTorch {torch} or newer" in " ".join(README.read_text().split())


def test_the_oldest_versions_are_those_that_make_oldest_installs(project: dict[str, Any]) -> None:
    """The page on versions names the same versions."""
    lines = README.with_name("constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    page = README.with_name("docs").joinpath("project", "versions.md").read_text()
    assert len(requirements(project)) > 10
    for name, oldest in requirements(project).items():
        assert Version(pinned[name]) == oldest, name
        assert f"| {name} | {oldest} |" in page, name


def test_the_page_on_versions_has_run_every_python_of_the_classifiers(project: dict[str, Any]) -> None:
    page = README.with_name("docs").joinpath("project", "versions.md").read_text()
    prefix = "Programming Language :: Python :: 3."
    versions = [
        classifier.removeprefix(prefix) for classifier in project["classifiers"] if classifier.startswith(prefix)
    ]
    assert versions
    for minor in versions:
        assert re.search(rf"^\| 3\.{minor}\.\d+ \|", page, re.MULTILINE), minor
