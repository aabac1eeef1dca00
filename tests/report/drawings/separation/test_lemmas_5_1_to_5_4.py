"""The figures of Lemmas 5.1 to 5.4."""

from __future__ import annotations

from separatrix.report.drawings.separation import lemmas_5_1_to_5_4
from tests.contracts.drawing_contract import DrawingContract


class TestLemmas51To54(DrawingContract):
    module = lemmas_5_1_to_5_4
    shown = (
        ("regression_failures", "separation/lemma-5.1"),
        ("regression_failures", "separation/lemma-5.2"),
        ("regression_failures", "separation/lemma-5.3"),
        ("regression_failures", "separation/lemma-5.4"),
    )
