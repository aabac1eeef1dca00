"""Corollary E.9: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import corollary_e_9
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestCorollaryE9(PairsContract):
    module = corollary_e_9
    pairs = "corollary-e.9/proof"
    mutants = (
        ("corollary-e.9", {"trained": 0.1, "late": [1.0, 1.0, 1.0, 1.0, 1e5]}, FAILS),
        ("corollary-e.9", {"before": [1e-6, 1e-6, 1e-6, 1e-6, 1e-6]}, FAILS),
        ("corollary-e.9/proof", {"terms": [1.0, 1.0, 1.1, 0.1]}, FAILS),
        ("corollary-e.9/proof", {"loss": 1.1}, FAILS),
        ("corollary-e.9/proof", {"expanded": 1e-3}, FAILS),
    )
