"""The figures of Definition 1.5."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import definition_1_5
from tests.contracts.drawing_contract import DrawingContract


class TestDefinition15(DrawingContract):
    module = definition_1_5
    shown = (("definition_errors", "kronecker/definition-1.5"),)
