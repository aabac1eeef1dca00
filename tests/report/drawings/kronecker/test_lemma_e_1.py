"""The figures of Lemma E.1."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import lemma_e_1
from tests.contracts.drawing_contract import DrawingContract


class TestLemmaE1(DrawingContract):
    module = lemma_e_1
    shown = (("sharp_rank", "kronecker/lemma-e.1"),)
