"""Theorem C.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_c_2
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestTheoremC2(PairsContract):
    module = theorem_c_2
    pairs = "theorem-c.2"
    mutants = (("theorem-c.2", {"scaled": 0.9}, FAILS),)
