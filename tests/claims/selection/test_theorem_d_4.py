"""Theorem D.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_d_4
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestTheoremD4(PairsContract):
    module = theorem_d_4
    pairs = "theorem-d.4/proof"
    mutants = (
        ("theorem-d.4/proof", {"chain": {"loss at the end": 1.1}}, FAILS),
        ("theorem-d.4/proof", {"chain": {"total of steps": 1.1}}, FAILS),
    )
