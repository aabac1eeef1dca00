"""The figures of Lemma D.3."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import lemma_d_3
from tests.contracts.drawing_contract import DrawingContract


class TestLemmaD3(DrawingContract):
    module = lemma_d_3
    shown = (("score_bound", "kronecker/lemma-d.3"),)
