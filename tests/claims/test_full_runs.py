"""Claims of the full profile on what their runs gave: the recorded verdict, and every wrong neighbour rejected."""

from __future__ import annotations

import pytest

from separatrix.claims.verdicts import expected
from tests.claims.full_runs import evidence, full_claims, kept

KEPT = kept()
CLAIMS = full_claims()
JUDGED = [id for id, one in CLAIMS.items() if evidence(one, KEPT) is not None]
ELSEWHERE = {
    "beyond/does-it-learn/recall-every-attention",
    "beyond/does-it-learn/recall-what-r-costs",
    "beyond/does-it-learn/text-every-attention",
    "beyond/does-it-learn/text-linear-attention",
    "beyond/does-it-learn/text-what-r-buys",
    "beyond/does-it-learn/through-the-polynomial-longer",
    "beyond/does-it-learn/triples-every-attention",
    "beyond/language-model/at-equal-compute",
    "beyond/language-model/at-equal-steps",
    "beyond/triples-by-training/over-n-and-m",
}
"""Claims whose runs are not kept: no test shows that their checks reject their neighbours on these cells."""


@pytest.mark.parametrize("id", JUDGED)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    found = evidence(CLAIMS[id], KEPT)
    assert found is not None
    finding = CLAIMS[id].judged(found)
    assert finding.verdict is expected()[id], finding
    assert {f"rejected: {other.says}" for other in CLAIMS[id].neighbours} <= finding.numbers.keys()


def test_the_others_are_known() -> None:
    assert CLAIMS.keys() - set(JUDGED) == ELSEWHERE
