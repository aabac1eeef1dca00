"""A damaged result in the store never reaches a verdict: its cell counts as not run, is named, and is rerun.

The damage is one flipped bit in a digit, which leaves a valid number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from separatrix import studies
from separatrix.claims import ledger, verdicts
from separatrix.claims.ledger import CellResult, Finding, Verdict, claim
from separatrix.explorer.claims.judged_claims import Shelf
from separatrix.lab import Store
from separatrix.report import figures as _figures  # noqa: F401  the drawings import claims into the real ledger
from tests.lab.app import app
from tests.lab.experiments import number, walk

ID = "kronecker/lemma-1"
NOTE = "Of 3 cells, 1 is damaged and counts as not run."


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with the cells of the only claim, which holds while every number is correct."""
    monkeypatch.setattr(ledger, "_REGISTRY", {})
    monkeypatch.setattr(studies, "load", lambda paper=None: None)
    monkeypatch.setattr(verdicts, "expected", lambda path=None: {ID: Verdict.HOLDS})
    cells = [number.cell(seed=4321, x=0.5), number.cell(seed=4322, x=0.5), walk.cell(seed=0, steps=3)]

    @claim(paper="kronecker", where="Lemma 1", says="The numbers are these.", cells=lambda: cells)
    def right(cells: Sequence[CellResult]) -> Finding:
        numbers = [cell.result["y"] for cell in cells[:2]]
        same = numbers == [4321.5, 4322.5] and cells[2].result["path"].tolist() == walk(3, seed=0)["path"].tolist()
        return Finding(Verdict.HOLDS if same else Verdict.FAILS_AS_PRINTED)

    assert command("reproduce", tmp_path / "r", "--in-process").exit_code == 0
    return tmp_path / "r"


def flip_a_result(folder: Path) -> None:
    """Change 4321.5 to 4320.5."""
    data = (folder / "store.sqlite").read_bytes()
    assert data.count(b'{"y":4321.5}') == 1
    (folder / "store.sqlite").write_bytes(data.replace(b'{"y":4321.5}', b'{"y":4320.5}'))


def flip_an_array(folder: Path) -> None:
    (file,) = folder.glob("arrays/*/*.safetensors")
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.fixture(params=[flip_a_result, flip_an_array], ids=["a result", "an array"])
def damaged(results: Path, request: pytest.FixtureRequest) -> Path:
    flip: Callable[[Path], None] = request.param
    flip(results)
    return results


def command(name: str, folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, [name, "--store", str(folder), *options])


def test_claims(damaged: Path) -> None:
    printed = command("claims", damaged)
    assert printed.exit_code == 0
    assert "not run here" in printed.stdout
    assert NOTE in " ".join(printed.stdout.split())


def test_reproduce(damaged: Path) -> None:
    done = command("reproduce", damaged, "--in-process")
    assert done.exit_code == 0, done.output
    assert "Damaged cells in the store, which count as not run and are run again: 1." in done.stderr
    assert "3 of 3 cells are done, 1 of them now" in done.stderr
    assert "holds" in done.stdout
    assert CliRunner().invoke(app, ["store", "verify", "--store", str(damaged)]).exit_code == 0


def test_the_report(damaged: Path) -> None:
    from separatrix.report.page import write_report

    with Store.open(damaged) as store:
        judgements = [verdicts.judge(claim, store) for claim in ledger.claims()]
        page = write_report(judgements, store).read_text("utf-8")
    assert NOTE in page
    assert "1 claim, quick: 1 is not run here." in page


def test_the_explorer(damaged: Path) -> None:
    (judgement,) = Shelf(damaged).judgements()
    assert (judgement.verdict, judgement.missing, judgement.finding.note) == (
        Verdict.NOT_RUN,
        1,
        f"{NOTE} No verdict is recorded.",
    )
