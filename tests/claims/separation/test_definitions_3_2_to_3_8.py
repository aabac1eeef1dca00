"""Definition 3.2 to Definition 3.8: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import definitions_3_2_to_3_8
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinitions32To38(ClaimContract):
    module = definitions_3_2_to_3_8
    mutants = (
        ("definition-3.2", {"f_lin": 0.001}, FAILS),
        ("definition-3.3", {"f_exp": 0.001}, FAILS),
        ("definition-3.4", {"phi": 0.001}, FAILS),
        ("definition-3.5", {"F_exp": 0.001}, FAILS),
        ("definition-3.6", {"F_lin": 0.001}, FAILS),
        ("definition-3.7", {"width": 1}, FAILS),
        ("definition-3.7", {"not_signs": 1}, FAILS),
        ("definition-3.7", {"sigmas": 7.0}, FAILS),
        ("definition-3.8", {"largest": 1.5}, FAILS),
        ("definition-3.8", {"special": 3.9}, FAILS),
    )
    worlds = (("definition-3.5", {"F_lin": 1.0}, UNDECIDED),)
