"""Theorem D.17: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_d_17
from tests.claims.separation.families import TheoremContract


class TestTheoremD17(TheoremContract):
    module = theorem_d_17
    event = ("theorem-d.17", "lin_silent_on_d0")
