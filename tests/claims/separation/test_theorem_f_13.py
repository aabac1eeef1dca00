"""Theorem F.13: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_f_13
from tests.claims.separation.families import TheoremContract


class TestTheoremF13(TheoremContract):
    module = theorem_f_13
    event = ("theorem-f.13", "lin_silent_on_d1")
