"""Theorem E.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_e_6
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestTheoremE6(PairsContract):
    module = theorem_e_6
    pairs = "theorem-e.6/proof"
    mutants = (
        ("theorem-e.6/proof", {"chain": {"loss at the end": 1.1}}, FAILS),
        ("theorem-e.6/proof", {"chain": {"total of steps": 1.1}}, FAILS),
    )
