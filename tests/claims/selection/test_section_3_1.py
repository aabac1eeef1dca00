"""Section 3.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import section_3_1
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestSection31(PairsContract):
    module = section_3_1
    pairs = "section-3.1/tail"
    mutants = (
        ("section-3.1/tail", {"loss_power": -0.5}, FAILS),
        ("section-3.1/tail", {"constant": 2.0}, FAILS),
    )
