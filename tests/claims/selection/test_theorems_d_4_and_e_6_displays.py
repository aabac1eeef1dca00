"""The displays of Theorem D.4 and Theorem E.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorems_d_4_and_e_6_displays
from tests.claims.selection.pairs import PairsContract


class TestTheoremD4Displays(PairsContract):
    module = theorems_d_4_and_e_6_displays
    pairs = "theorem-d.4/displays"


class TestTheoremE6Displays(PairsContract):
    module = theorems_d_4_and_e_6_displays
    pairs = "theorem-e.6/displays"
