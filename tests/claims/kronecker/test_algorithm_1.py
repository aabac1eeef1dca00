"""Algorithm 1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import algorithm_1
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestAlgorithm1(ClaimContract):
    module = algorithm_1
    mutants = (
        ("algorithm-1", {"error": 1.0}, FAILS),
        ("algorithm-1", {"step_4": 0.001}, FAILS),
        ("algorithm-1", {"flops": 7}, FAILS),
        ("algorithm-1", {"library": 1.0}, FAILS),
    )
