"""The proofs of Theorem 4.5 and Theorem 4.7: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import theorems_4_5_and_4_7_proofs
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheorems45And47Proofs(ClaimContract):
    module = theorems_4_5_and_4_7_proofs
    mutants = (
        ("theorem-4.5/proof", {"r": 9}, FAILS),
        ("theorem-4.5/proof", {"systematic": False}, FAILS),
        ("theorem-4.7/sizes", {"every": 1}, FAILS),
        ("theorem-4.7/sizes", {"indexed": 1000000000}, FAILS),
    )
    worlds = (("theorem-4.7/sizes", {"printed": 1}, UNDECIDED),)
