"""Theorem D.13: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_d_13
from tests.claims.separation.families import TheoremContract


class TestTheoremD13(TheoremContract):
    module = theorem_d_13
    event = ("theorem-d.13", "lin_silent_on_d1")
