"""The figures of Equation (4)."""

from __future__ import annotations

from separatrix.report.drawings.selection import equation_4
from tests.contracts.drawing_contract import DrawingContract


class TestEquation4(DrawingContract):
    module = equation_4
    shown = (("two_objectives", "selection/equation-4/two-objectives"),)
