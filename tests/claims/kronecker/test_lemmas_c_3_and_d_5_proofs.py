"""The proofs of Lemma C.3 and Lemma D.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemmas_c_3_and_d_5_proofs
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmasC3AndD5Proofs(ClaimContract):
    module = lemmas_c_3_and_d_5_proofs
    mutants = (
        ("lemma-c.3/proof", {"rows_differ": 1}, FAILS),
        ("lemma-d.5/proof", {"over_l": 1}, FAILS),
    )
    worlds = (
        ("lemma-d.5/proof", {"over_j": 0}, UNDECIDED),
        ("lemma-c.3/proof", {"square": True}, UNDECIDED),
    )
