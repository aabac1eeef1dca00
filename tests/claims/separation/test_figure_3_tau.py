"""Figure 3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import figure_3_tau
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestFigure3Tau(ClaimContract):
    module = figure_3_tau
    worlds = (("figure-3/tau", {"low": [0.5] * 15, "high": [0.5] * 15}, UNDECIDED),)
