"""The figures of Theorem C.3."""

from __future__ import annotations

from separatrix.report.drawings.selection import theorem_c_3
from tests.contracts.drawing_contract import DrawingContract


class TestTheoremC3(DrawingContract):
    module = theorem_c_3
    shown = (("construction_error", "selection/theorem-c.3"),)
