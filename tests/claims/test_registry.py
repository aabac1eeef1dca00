"""Every claim of the papers: the recorded verdict comes out, and other results get another verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from separatrix.claims import load
from separatrix.claims.ledger import Verdict, claims
from tests.claims.cells import ran, recorded
from tests.claims.changes import FAILS, UNDECIDED, changed, every, judge
from tests.claims.mutants import ALL_CELLS, ONE_CELL, PAIRS, Entries, Mutants
from tests.claims.separation.test_along_paths import ENTRIES, EXISTENCE, FIRES, PATHS, ROWS, SILENT

load()
CLAIMS = {claim.id: claim for claim in claims() if claim.paper != "beyond"}


def cases(mutants: Mutants, paper: str) -> list[tuple[str, Entries, Verdict]]:
    """The mutants of a paper's claims, one by one."""
    return [
        (id, entries, verdict)
        for verdict, by_claim in mutants.items()
        for id, changes in by_claim.items()
        for entries in changes
        if id.startswith(f"{paper}/")
    ]


class ClaimsOfPaper:
    """The tests of a paper's claims; a subclass names the paper."""

    paper: ClassVar[str]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        of_paper = [id for id, claim in CLAIMS.items() if claim.paper == self.paper]
        parameters: dict[str, Sequence[Any]] = {
            "any_id": of_paper,
            "quick_id": [id for id in of_paper if CLAIMS[id].profile == "quick"],
            "pairs_id": [id for id in of_paper if id in PAIRS],
            "one_cell": cases(ONE_CELL, self.paper),
            "all_cells": cases(ALL_CELLS, self.paper),
        }
        for name in parameters.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, parameters[name], ids=lambda case: case if isinstance(case, str) else case[0])

    def test_the_verdict_is_the_recorded_one(self, quick_id: str) -> None:
        finding = CLAIMS[quick_id].judged(ran(quick_id))
        assert finding.verdict is recorded()[quick_id], finding
        assert finding.numbers

    def test_what_is_misprinted_is_named(self, any_id: str) -> None:
        """A claim with a corrected verdict names its errata; one that holds or is not reproduced has none."""
        claim, verdict = CLAIMS[any_id], recorded()[any_id]
        if verdict not in (FAILS, Verdict.ILLUSTRATED):
            assert bool(claim.errata) == verdict.is_corrected
        for erratum in claim.errata:
            assert erratum.printed != erratum.right
            assert erratum.why

    def test_another_result_of_one_cell_changes_the_verdict(self, one_cell: tuple[str, Entries, Verdict]) -> None:
        id, entries, verdict = one_cell
        assert judge(id, changed(ran(id), **entries)) is verdict

    def test_other_results_of_all_cells_change_the_verdict(self, all_cells: tuple[str, Entries, Verdict]) -> None:
        id, entries, verdict = all_cells
        assert judge(id, every(ran(id), **entries)) is verdict

    @pytest.mark.parametrize(
        ("missed", "verdict"), [(0.0, UNDECIDED), (0.5, FAILS)], ids=["not shown", "not corrected"]
    )
    def test_every_misprint_is_shown_and_corrected(self, pairs_id: str, missed: float, verdict: Verdict) -> None:
        """Nothing is decided if what is printed is right too; the claim fails if its correction is wrong."""
        assert CLAIMS[pairs_id].errata
        for erratum in CLAIMS[pairs_id].errata:
            pair = {erratum.shown_by: [missed, missed]}
            assert judge(pairs_id, every(ran(pairs_id), **pair)) is verdict, erratum.shown_by


class TestKronecker(ClaimsOfPaper):
    paper = "kronecker"


class TestSelection(ClaimsOfPaper):
    paper = "selection"


class TestSeparation(ClaimsOfPaper):
    paper = "separation"


def test_every_file_of_claims_has_results_that_change_a_verdict(root: Path) -> None:
    """In the tables of mutants, among the claims along paths, or in a test file of its name."""
    tabled = {id for mutants in (ONE_CELL, ALL_CELLS) for by_claim in mutants.values() for id in by_claim}
    along_paths = {*ENTRIES, *ROWS, *PATHS, *(id for id, _ in (*FIRES, *SILENT)), *EXISTENCE}
    homes = {CLAIMS[id].home for id in tabled.union(PAIRS, along_paths)}
    for home in {claim.home for claim in CLAIMS.values()} - homes:
        paper, stem = home.split(".")[-2:]
        assert (root / "tests" / "claims" / paper / f"test_{stem}.py").is_file(), f"{home} has no mutants"
