"""Lemma 5.1, Lemma 5.2, Lemma 5.3 and Lemma 5.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_5_1_to_5_4
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmas51To54(ClaimContract):
    module = lemmas_5_1_to_5_4
    worlds = (
        ("lemma-5.1", {"exp_silent_on_d0": [0.0] * 16, "sample": [0.0, 1.0]}, FAILS),
        ("lemma-5.1", {"sample": [0.25, 0.25]}, UNDECIDED),
        ("lemma-5.2", {"above_half": False}, UNDECIDED),
        ("lemma-5.3", {"lin_silent_on_d0": [0.0] * 16, "sample": [0.0, 1.0]}, FAILS),
        ("lemma-5.4", {"lin_silent_on_d1": [0.0] * 16, "sample": [0.0, 1.0]}, FAILS),
    )
