"""What claims pass whose misprints are measured in pairs, beside the contract of all claims."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class PairsContract(ClaimContract):
    """Every misprint of a claim: not shown, and nothing is decided; its correction missed, and the claim fails."""

    pairs: ClassVar[str]
    """The id of the claim."""

    def test_a_misprint_that_is_not_shown_leaves_the_claim_undecided(self) -> None:
        for name in self._names():
            assert self._with(name, 0.0, 0.0) is UNDECIDED

    def test_a_correction_that_is_missed_fails_the_claim(self) -> None:
        for name in self._names():
            assert self._with(name, 0.5, 0.5) is FAILS

    def _names(self) -> list[str]:
        errata = self.claim(self.pairs).errata
        assert errata
        return [erratum.shown_by for erratum in errata]

    def _with(self, name: str, printed: float, right: float) -> object:
        found = self.found(self.pairs)
        assert any(name in one.result for one in found)
        pair = {name: [printed, right]}
        changed = [replace(one, result={**one.result, **pair}) if name in one.result else one for one in found]
        return self.verdict(self.pairs, changed)
