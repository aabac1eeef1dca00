"""The figures of Section 3.1."""

from __future__ import annotations

from separatrix.report.drawings.selection import section_3_1
from tests.contracts.drawing_contract import DrawingContract


class TestSection31(DrawingContract):
    module = section_3_1
    shown = (("population_tail", "selection/section-3.1/tail"),)
