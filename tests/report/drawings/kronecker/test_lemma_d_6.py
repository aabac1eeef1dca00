"""The figures of Lemma D.6."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import lemma_d_6
from tests.contracts.drawing_contract import DrawingContract


class TestLemmaD6(DrawingContract):
    module = lemma_d_6
    shown = (("output_error", "kronecker/lemma-d.6"),)
