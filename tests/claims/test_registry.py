"""Every claim of the papers gets its recorded verdict, and modified results give another verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from separatrix.claims import load
from separatrix.claims.ledger import Verdict, claims
from tests.claims.cells import ran, recorded
from tests.claims.changes import FAILS, UNDECIDED, changed, every, judge
from tests.claims.mutants import ALL_CELLS, ONE_CELL, PAIRS, Entries, Mutants
from tests.claims.separation.test_along_paths import ENTRIES, EXISTENCE, FIRES, PATHS, ROWS, SILENT

load()
CLAIMS = {claim.id: claim for claim in claims() if claim.paper != "beyond"}


def mutants_by_claim(mutants: Mutants, paper: str) -> dict[str, list[tuple[Entries, Verdict]]]:
    """The modified entries and the resulting verdicts, by the ids of a paper's claims."""
    cases: dict[str, list[tuple[Entries, Verdict]]] = {}
    for verdict, by_claim in mutants.items():
        for id, changes in by_claim.items():
            if id.startswith(f"{paper}/"):
                cases.setdefault(id, []).extend((entries, verdict) for entries in changes)
    return cases


class ClaimsOfPaper:
    """The tests of a paper's claims; a subclass names the paper."""

    paper: ClassVar[str]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        of_paper = [id for id, claim in CLAIMS.items() if claim.paper == self.paper]
        parameters: dict[str, Sequence[str]] = {
            "quick_id": [id for id in of_paper if CLAIMS[id].profile == "quick"],
            "pairs_id": [id for id in of_paper if id in PAIRS],
            "one_cell_id": list(mutants_by_claim(ONE_CELL, self.paper)),
            "all_cells_id": list(mutants_by_claim(ALL_CELLS, self.paper)),
        }
        for name in parameters.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, parameters[name])

    def test_the_verdict_is_the_recorded_one(self, quick_id: str) -> None:
        """The check also rejects every wrong neighbour on these results, whatever the verdict is."""
        finding = CLAIMS[quick_id].judged(ran(quick_id))
        assert finding.verdict is recorded()[quick_id], finding
        assert finding.numbers
        rejected = {name: answer for name, answer in finding.numbers.items() if name.startswith("rejected: ")}
        assert list(rejected.values()) == ["yes"] * len(CLAIMS[quick_id].neighbours), rejected

    def test_misprints_are_named(self) -> None:
        """A claim with a corrected verdict names its errata; one that holds or is not reproduced has none."""
        for id, claim in CLAIMS.items():
            if claim.paper != self.paper:
                continue
            verdict = recorded()[id]
            if verdict not in (FAILS, Verdict.ILLUSTRATED):
                assert bool(claim.errata) == verdict.is_corrected, id
            for erratum in claim.errata:
                assert erratum.printed != erratum.right, id
                assert erratum.why, id

    def test_another_result_of_one_cell_changes_the_verdict(self, one_cell_id: str) -> None:
        for entries, verdict in mutants_by_claim(ONE_CELL, self.paper)[one_cell_id]:
            assert judge(one_cell_id, changed(ran(one_cell_id), **entries)) is verdict, entries

    def test_other_results_of_all_cells_change_the_verdict(self, all_cells_id: str) -> None:
        for entries, verdict in mutants_by_claim(ALL_CELLS, self.paper)[all_cells_id]:
            assert judge(all_cells_id, every(ran(all_cells_id), **entries)) is verdict, entries

    def test_every_misprint_is_shown_and_corrected(self, pairs_id: str) -> None:
        """The claim is undecided if the printed text is right too, and fails if its correction is wrong."""
        measured = {name for cell in ran(pairs_id) for name in cell.result}
        in_pairs = [erratum for erratum in CLAIMS[pairs_id].errata if erratum.shown_by in measured]
        assert in_pairs
        for missed, verdict in ((0.0, UNDECIDED), (0.5, FAILS)):
            for erratum in in_pairs:
                pair = {erratum.shown_by: [missed, missed]}
                assert judge(pairs_id, every(ran(pairs_id), **pair)) is verdict, (erratum.shown_by, missed)


class TestKronecker(ClaimsOfPaper):
    paper = "kronecker"


class TestSelection(ClaimsOfPaper):
    paper = "selection"


class TestSeparation(ClaimsOfPaper):
    paper = "separation"


def test_every_file_of_claims_has_results_that_change_a_verdict(root: Path) -> None:
    """They are in the tables of mutants, among the claims along paths, or in a test file named after the claim."""
    tabled = {id for mutants in (ONE_CELL, ALL_CELLS) for by_claim in mutants.values() for id in by_claim}
    along_paths = {*ENTRIES, *ROWS, *PATHS, *(id for id, _ in (*FIRES, *SILENT)), *EXISTENCE}
    homes = {CLAIMS[id].home for id in tabled.union(PAIRS, along_paths)}
    for home in {claim.home for claim in CLAIMS.values()} - homes:
        paper, stem = home.split(".")[-2:]
        assert (root / "tests" / "claims" / paper / f"test_{stem}.py").is_file(), f"{home} has no mutants"
