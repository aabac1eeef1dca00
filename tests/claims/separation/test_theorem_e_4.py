"""Theorem E.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_e_4
from tests.claims.separation.families import FiringTheoremContract, PathsContract


class TestTheoremE4(FiringTheoremContract, PathsContract):
    module = theorem_e_4
    event = ("theorem-e.4", "exp_fires_on_d1")
    paths = "theorem-e.4/paths"
