"""The figures of Theorem 1.4."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import theorem_1_4
from tests.contracts.drawing_contract import DrawingContract


class TestTheorem14(DrawingContract):
    module = theorem_1_4
    shown = (("threshold_limit", "kronecker/theorem-1.4/threshold"),)
