"""What the lemmas and the theorems of Sections D, E and F pass, beside the contract of all claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import pytest

from separatrix.claims.ledger import Found
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract, claims_of, every


def columns(one: Found, **to: float) -> dict[str, list[float]]:
    """Columns along a path that have one value everywhere."""
    return {name: [value] * len(one.result["log10_n"]) for name, value in to.items()}


class LemmaContract(ClaimContract):
    """Lemmas about every entry, and one about a row with random signs."""

    special: ClassVar[str]
    """The id of a lemma by which the special row often reaches its threshold, if there is one."""
    centred: ClassVar[str]
    """The id of a lemma whose proof puts the sum near +c, if there is one."""
    asked: ClassVar[Mapping[str, str]] = {
        **ClaimContract.asked,
        "test_a_special_row_that_never_reaches_its_threshold_fails": "special",
        "test_if_the_sum_were_near_plus_c_the_erratum_would_not_be_shown": "centred",
    }

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        super().pytest_generate_tests(metafunc)
        ours = claims_of(self.module)
        cases = {name: [id for id in ours if name in ours[id].figures] for name in ("entry_bounds", "row_chances")}
        cases["misprinted_entries"] = [id for id in cases["entry_bounds"] if ours[id].errata]
        assert cases["misprinted_entries"]
        assert cases["entry_bounds"]
        assert cases["row_chances"]
        for name in cases.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, cases[name])

    def test_one_entry_against_a_lemma_fails_it(self, entry_bounds: str) -> None:
        first, *rest = self.found(entry_bounds)
        part = next(iter(first.result["right"]))
        compared, _, ratio = first.result["right"][part]
        right = {**first.result["right"], part: [compared, 1, ratio]}
        assert self.verdict(entry_bounds, [replace(first, result={**first.result, "right": right}), *rest]) is FAILS

    def test_an_erratum_that_is_not_shown_is_not_reported(self, misprinted_entries: str) -> None:
        found = self.found(misprinted_entries)
        slips = [[compared, 0] for compared, _ in found[0].result["slips"]]
        assert self.verdict(misprinted_entries, every(found, slips=slips)) is UNDECIDED

    def test_a_part_that_no_entry_is_about_is_undecided(self, entry_bounds: str) -> None:
        found = self.found(entry_bounds)
        part = next(iter(found[0].result["right"]))
        empty = [
            replace(one, result={**one.result, "right": {**one.result["right"], part: [0, 0, None]}}) for one in found
        ]
        assert self.verdict(entry_bounds, empty) is UNDECIDED

    def test_a_row_that_often_reaches_its_threshold_is_not_rare(self, row_chances: str) -> None:
        assert self._along(row_chances, {"reaches": -0.01}) is FAILS

    def test_a_special_row_that_never_reaches_its_threshold_fails(self) -> None:
        assert self._along(self.special, {"reaches": -1e6}, row="special") is FAILS

    def test_if_the_sum_were_near_plus_c_the_erratum_would_not_be_shown(self) -> None:
        assert self._along(self.centred, {"off_printed": -1e6}) is UNDECIDED

    def _along(self, id: str, to: Mapping[str, float], **where: str) -> object:
        """The verdict after columns of the cells about rows were given one value."""
        found = [
            replace(one, result={**one.result, **columns(one, **to)})
            if "reaches" in one.result and where.items() <= one.parameters.items()
            else one
            for one in self.found(id)
        ]
        return self.verdict(id, found)


class TheoremContract(ClaimContract):
    """A theorem that one of the four events, or all of them, fail with a chance of at most delta / poly(n)."""

    event: ClassVar[tuple[str, str]]
    """The id of the theorem, and the event."""

    def test_a_theorem_whose_chance_of_failure_stays_fails(self) -> None:
        id, event = self.event
        found = [replace(one, result={**one.result, **columns(one, **{event: -0.5})}) for one in self.found(id)]
        assert self.verdict(id, found) is FAILS


class FiringTheoremContract(TheoremContract):
    """A theorem that F_exp > 0 on D1, which needs enough sign vectors."""

    def test_if_few_vectors_were_enough_the_erratum_would_not_be_shown(self) -> None:
        id, event = self.event
        found = [
            replace(one, result={**one.result, **columns(one, **{event: -1000.0})})
            if one.parameters["width"] == 1.0
            else one
            for one in self.found(id)
        ]
        assert self.verdict(id, found) is UNDECIDED


class PathsContract(ClaimContract):
    """A claim about paths d(n), some of which the theorem allows."""

    paths: ClassVar[str]
    """The id of the claim."""

    @pytest.mark.parametrize(("path", "success"), [("n^0.5", 0.5), ("10", 1.0)])
    def test_paths_must_part(self, path: str, success: float) -> None:
        found = [
            replace(one, result={**one.result, **columns(one, probability=success)})
            if one.parameters["path"] == path
            else one
            for one in self.found(self.paths)
        ]
        assert self.verdict(self.paths, found) is FAILS
