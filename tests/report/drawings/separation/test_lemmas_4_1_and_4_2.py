"""The figures of Lemmas 4.1 and 4.2."""

from __future__ import annotations

from separatrix.report.drawings.separation import lemmas_4_1_and_4_2
from tests.contracts.drawing_contract import DrawingContract


class TestLemmas41And42(DrawingContract):
    module = lemmas_4_1_and_4_2
    shown = (
        ("regression_sums", "separation/lemma-4.1"),
        ("regression_sums", "separation/lemma-4.2"),
    )
