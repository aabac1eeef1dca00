"""The claims on fixed encodings: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import Found, Verdict
from separatrix.studies.selection import fixed
from tests.studies.cells import changed, claims_of, given, judged_as_recorded, run_cells

OURS = claims_of(fixed)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def ran(id: str) -> tuple[Found, ...]:
    return run_cells(OURS[id])


@pytest.mark.parametrize("id", OURS)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    judged_as_recorded(OURS[id])


def test_a_bad_encoding_would_be_seen() -> None:
    id = "appendix-e.6/one-encoding-for-all"
    found = ran(id)
    each = list(found[0].result["each"])
    assert OURS[id].check(changed(found, given(width=170), each=[*each[:-1], 1.5 * each[-1]])).verdict is FAILS
    assert OURS[id].check(changed(found, given(width=170), of_mean=2 * max(each))).verdict is FAILS


def test_the_trained_check_of_fixed_encodings() -> None:
    """On made results: fixed encodings near the fresh loss hold, one at twice it does not."""

    def made(fixed: list[float]) -> Found:
        return Found({}, 0, {"loss": [0.001], "error": [1e-5], "fixed": fixed, "fixed_error": [1e-5] * len(fixed)})

    check = OURS["appendix-e.6/one-encoding-for-all-trained"].check
    assert check([made([0.0009, 0.0011])]).verdict is HOLDS
    assert check([made([0.0009, 0.002])]).verdict is FAILS
