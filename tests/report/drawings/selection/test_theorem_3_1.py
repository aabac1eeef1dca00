"""The figures of Theorem 3.1."""

from __future__ import annotations

from separatrix.report.drawings.selection import theorem_3_1
from tests.contracts.drawing_contract import DrawingContract


class TestTheorem31(DrawingContract):
    module = theorem_3_1
    shown = (
        ("time_to_loss", "selection/theorem-3.1"),
        ("time_exponents", "selection/theorem-3.1"),
    )
