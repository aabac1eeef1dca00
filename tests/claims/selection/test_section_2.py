"""Section 2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import section_2
from tests.claims.selection.pairs import PairsContract


class TestSection2(PairsContract):
    module = section_2
    pairs = "section-2/shapes"
