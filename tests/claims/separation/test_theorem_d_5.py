"""Theorem D.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_d_5
from tests.claims.separation.families import FiringTheoremContract


class TestTheoremD5(FiringTheoremContract):
    module = theorem_d_5
    event = ("theorem-d.5", "exp_fires_on_d1")
