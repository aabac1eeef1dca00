"""Theorem D.9: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_d_9
from tests.claims.separation.families import TheoremContract


class TestTheoremD9(TheoremContract):
    module = theorem_d_9
    event = ("theorem-d.9", "exp_silent_on_d0")
