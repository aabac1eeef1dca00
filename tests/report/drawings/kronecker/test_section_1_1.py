"""The figures of Section 1.1."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import section_1_1
from tests.contracts.drawing_contract import DrawingContract


class TestSection11(DrawingContract):
    module = section_1_1
    shown = (("largest_order", "kronecker/section-1.1/largest-order"),)
