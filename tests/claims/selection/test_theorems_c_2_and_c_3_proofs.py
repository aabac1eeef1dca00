"""The proofs of Theorem C.2 and Theorem C.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorems_c_2_and_c_3_proofs
from tests.claims.selection.pairs import PairsContract


class TestTheoremC2Proof(PairsContract):
    module = theorems_c_2_and_c_3_proofs
    pairs = "theorem-c.2/proof"


class TestTheoremC3Matrices(PairsContract):
    module = theorems_c_2_and_c_3_proofs
    pairs = "theorem-c.3/matrices"
