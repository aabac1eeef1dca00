"""The figures of Lemma C.3."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import lemma_c_3
from tests.contracts.drawing_contract import DrawingContract


class TestLemmaC3(DrawingContract):
    module = lemma_c_3
    shown = (("kronecker_product_flops", "kronecker/lemma-c.3"),)
