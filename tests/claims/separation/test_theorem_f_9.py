"""Theorem F.9: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_f_9
from tests.claims.separation.families import TheoremContract


class TestTheoremF9(TheoremContract):
    module = theorem_f_9
    event = ("theorem-f.9", "exp_silent_on_d0")
