"""The figures of Lemma D.5."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import lemma_d_5
from tests.contracts.drawing_contract import DrawingContract


class TestLemmaD5(DrawingContract):
    module = lemma_d_5
    shown = (("denominator_error", "kronecker/lemma-d.5"),)
