"""The number of claims: every claim is counted, in the same way on every page."""

from __future__ import annotations

from separatrix import studies
from separatrix.claims import PAPERS
from separatrix.claims.counts import count, count_recorded
from separatrix.claims.ledger import Verdict, claims
from tests.claims.declared import declare


def test_every_claim_is_counted() -> None:
    studies.load()
    total = count_recorded()
    assert total.claims == len(claims()) == sum(total.verdicts.values())
    counts = [count_recorded(paper) for paper in PAPERS]
    assert sum(paper_count.quick for paper_count in counts) == total.quick
    assert sum(paper_count.full for paper_count in counts) == total.full
    assert sum(paper_count.verdicts[Verdict.UNDECIDED] for paper_count in counts) == total.verdicts[Verdict.UNDECIDED]


def test_in_words(empty) -> None:
    quick, full = declare("Lemma 1"), declare("Lemma 2", profile="full")
    assert str(count([])) == "No claims."
    assert str(count([(full, Verdict.NOT_RUN)])) == "1 claim, full: 1 is not run here."
    assert str(count([(quick, Verdict.HOLDS)] * 1200)) == "1,200 claims, all quick: 1,200 hold."
    both = count([(quick, Verdict.PROVED), (full, Verdict.FAILS_AS_PRINTED), (full, Verdict.FAILS_AS_PRINTED)])
    assert str(both) == "3 claims, 1 of them quick and 2 full: 1 is proved, 2 fail as printed."


def test_claims_without_a_record_have_not_been_run(empty) -> None:
    declare("Lemma 99.9")
    assert count_recorded().verdicts == {Verdict.NOT_RUN: 1}
