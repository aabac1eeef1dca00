"""Theorem F.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_f_5
from tests.claims.separation.families import FiringTheoremContract, PathsContract


class TestTheoremF5(FiringTheoremContract, PathsContract):
    module = theorem_f_5
    event = ("theorem-f.5", "exp_fires_on_d1")
    paths = "theorem-f.5/paths"
