"""Section 2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import section_2
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestSection2(PairsContract):
    module = section_2
    pairs = "section-2/shapes"
    mutants = (("section-2/shapes", {"columns": 3}, FAILS), ("section-2/shapes", {"outputs": 18}, FAILS))
