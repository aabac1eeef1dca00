"""The figures of Corollary 3.6."""

from __future__ import annotations

from separatrix.report.drawings.selection import corollary_3_6
from tests.contracts.drawing_contract import DrawingContract


class TestCorollary36(DrawingContract):
    module = corollary_3_6
    shown = (("length_ratio", "selection/corollary-3.6"),)
