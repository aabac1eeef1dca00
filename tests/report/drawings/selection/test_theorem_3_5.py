"""The figures of Theorem 3.5."""

from __future__ import annotations

from separatrix.report.drawings.selection import theorem_3_5
from tests.contracts.drawing_contract import DrawingContract


class TestTheorem35(DrawingContract):
    module = theorem_3_5
    shown = (
        ("fully_connected_widths", "selection/theorem-3.5"),
        ("fully_connected_widths", "selection/theorem-3.5/trained-nets"),
    )
