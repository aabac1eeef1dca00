"""Theorem F.17: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_f_17
from tests.claims.separation.families import TheoremContract


class TestTheoremF17(TheoremContract):
    module = theorem_f_17
    event = ("theorem-f.17", "lin_silent_on_d0")
