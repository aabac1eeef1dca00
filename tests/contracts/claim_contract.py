"""What every file of claims passes: the recorded verdicts come out, and another result gets another verdict.

A subclass names the module of the claims, and mutants: an id without its paper, entries of a result with the values
that they are given, and the verdict that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

import pytest

from separatrix.claims import ledger
from separatrix.claims.ledger import Claim, Found, Verdict
from tests.claims.cells import ran, recorded

CORRECTED, FAILS, HOLDS, NOT_REPRODUCED, UNDECIDED = (
    Verdict.HOLDS_CORRECTED,
    Verdict.FAILS_AS_PRINTED,
    Verdict.HOLDS,
    Verdict.NOT_REPRODUCED,
    Verdict.UNDECIDED,
)
Mutant = tuple[str, Mapping[str, Any], Verdict]


def claims_of(module: ModuleType) -> dict[str, Claim]:
    """The claims that a module declares, by the id without its paper."""
    ours = [one for one in ledger._REGISTRY.values() if one.home == module.__name__]
    return {one.id.partition("/")[2]: one for one in ours}


def changed(found: Sequence[Found], **to: Any) -> list[Found]:
    """The results with entries of the first that has them set to other values."""
    at = next(i for i, one in enumerate(found) if to.keys() <= one.result.keys())
    return [*found[:at], replace(found[at], result={**found[at].result, **to}), *found[at + 1 :]]


def every(found: Sequence[Found], **to: Any) -> list[Found]:
    """The results with these entries set to other values wherever they are."""
    assert any(to.keys() <= one.result.keys() for one in found)
    return [replace(one, result={**one.result, **to}) if to.keys() <= one.result.keys() else one for one in found]


class ClaimContract:
    """The tests of one file of claims. `mutants` change the first result that has the entries, `worlds` all of them."""

    module: ClassVar[ModuleType]
    mutants: ClassVar[Sequence[Mutant]] = ()
    worlds: ClassVar[Sequence[Mutant]] = ()
    asked: ClassVar[Mapping[str, str]] = {
        "test_one_other_result_changes_the_verdict": "mutants",
        "test_other_results_give_another_verdict": "worlds",
    }
    """Tests that a subclass has only if it declares these attributes."""

    def __init_subclass__(cls) -> None:
        for test, attribute in cls.asked.items():
            if not getattr(cls, attribute, None) and hasattr(cls, "module"):
                setattr(cls, test, None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        ours = claims_of(self.module)
        assert ours, f"{self.module.__name__} declares no claim"
        cases = {"mutant": self.mutants, "world": self.worlds, "any_id": sorted(ours)}
        cases["quick_id"] = [id for id in cases["any_id"] if ours[id].profile == "quick"]
        for name in cases.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, cases[name], ids=lambda case: case if isinstance(case, str) else case[0])

    def claim(self, id: str) -> Claim:
        return claims_of(self.module)[id]

    def found(self, id: str) -> tuple[Found, ...]:
        return ran(self.claim(id).id)

    def verdict(self, id: str, found: Sequence[Found]) -> Verdict:
        return self.claim(id).judged(found).verdict

    def test_the_verdict_is_the_recorded_one(self, quick_id: str) -> None:
        finding = self.claim(quick_id).judged(self.found(quick_id))
        assert finding.verdict is recorded()[self.claim(quick_id).id], finding
        assert finding.numbers

    def test_what_is_misprinted_is_named(self, any_id: str) -> None:
        """A claim that holds corrected names its errata; one that holds as printed has none, one not reproduced too."""
        claim, verdict = self.claim(any_id), recorded()[self.claim(any_id).id]
        if verdict not in (FAILS, Verdict.ILLUSTRATED):
            assert bool(claim.errata) == (verdict is CORRECTED)
        for erratum in claim.errata:
            assert erratum.printed != erratum.right
            assert erratum.why

    def test_one_other_result_changes_the_verdict(self, mutant: Mutant) -> None:
        id, to, verdict = mutant
        assert self.verdict(id, changed(self.found(id), **to)) is verdict

    def test_other_results_give_another_verdict(self, world: Mutant) -> None:
        id, to, verdict = world
        assert self.verdict(id, every(self.found(id), **to)) is verdict
