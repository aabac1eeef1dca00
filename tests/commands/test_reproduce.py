"""`separatrix reproduce`: it fails if a verdict differs from the recorded one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.claims.verdicts import Judgement
from separatrix.lab import Store
from separatrix.report import page
from tests.claims.declared import declare
from tests.commands.invoked import invoke
from tests.lab.experiments import fails, number


def test_reproduce_succeeds_and_fails_by_the_record(recorded, tmp_path: Path) -> None:
    claim = declare()
    recorded[claim.id] = Verdict.HOLDS
    done = invoke("reproduce", "--store", tmp_path / "r", "--in-process")
    assert done.exit_code == 0
    assert all(word in done.stdout for word in (claim.id, "holds", " s"))
    recorded[claim.id] = Verdict.FAILS_AS_PRINTED
    differs = invoke("reproduce", "--store", tmp_path / "r", "--in-process")
    assert differs.exit_code == 1
    assert f"DIFFERS  {claim.id}: holds, and fails as printed is recorded." in differs.stderr
    assert invoke("reproduce", "--store", tmp_path / "r", "--only", "kronecker/lemma-7").exit_code == 2
    assert invoke("reproduce", "--store", tmp_path / "r", "--paper", "cookbook").exit_code == 2


def test_reproduce_only_runs_the_named_claims(recorded, tmp_path: Path) -> None:
    one, other = declare("Lemma 1"), declare("Lemma 2", cells=lambda: [number.cell(seed=9, x=9.0)])
    recorded |= {one.id: Verdict.HOLDS, other.id: Verdict.HOLDS}
    done = invoke("reproduce", "--store", tmp_path / "r", "--in-process", "--only", other.id)
    assert done.exit_code == 0
    assert one.id not in done.stdout
    with Store.open(tmp_path / "r") as store:
        assert [record.cell.seed for record in store.records()] == [9]


def test_reproduce_hands_the_verdicts_to_the_report(recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = declare()
    recorded[claim.id] = Verdict.HOLDS
    given: list[Any] = []

    def write(judgements: Sequence[Judgement], store: Store, part: str | None) -> Path:
        given.append([judgement.verdict for judgement in judgements])
        return store.folder / "report.html"

    monkeypatch.setattr(page, "write_report", write)
    done = invoke("reproduce", "--store", tmp_path / "r", "--in-process")
    assert given == [[Verdict.HOLDS]]
    assert f"The report: {(tmp_path / 'r' / 'report.html').as_uri()}" in done.stdout


def test_reproduce_with_a_failing_cell_exits_with_1(recorded, tmp_path: Path) -> None:
    claim = declare(cells=lambda: [fails.cell(seed=1, when=1)])
    recorded[claim.id] = Verdict.UNDECIDED
    done = invoke("reproduce", "--store", tmp_path / "r", "--in-process")
    assert done.exit_code == 1
    assert "1 cell failed" in done.stderr


def test_many_verdicts_end_with_a_summary_of_one_screen(recorded, tmp_path: Path) -> None:
    made = [declare(f"Lemma {i}") for i in range(30)]
    waits = declare("Lemma 90", profile="full", cells=lambda: [number.cell(seed=8, x=8.0)])
    failing = declare("Lemma 91", cells=lambda: [fails.cell(seed=1, when=1)])
    recorded |= {one.id: Verdict.HOLDS for one in made} | {waits.id: Verdict.NOT_RUN, failing.id: Verdict.UNDECIDED}
    done = invoke("reproduce", "--store", tmp_path / "r", "--in-process")
    lines = done.stdout.splitlines()
    assert len(lines) <= 10
    assert lines[0] == "kronecker   32 claims: 30 hold, 1 is undecided, 1 is not run here."
    assert [line.strip() for line in lines[1:3]] == ["undecided:", failing.id]
    assert lines[3] == "Claims that were not run here need --profile full, which takes hours."
