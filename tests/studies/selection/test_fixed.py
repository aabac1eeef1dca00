"""The claims on fixed encodings: their verdicts, and results that change them."""

from __future__ import annotations

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.selection import fixed
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(fixed)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def test_a_bad_encoding_would_be_detected() -> None:
    id = "appendix-e.6/one-encoding-for-all"
    cells = ran(id)
    losses = list(cells[0].result["each"])
    assert OURS[id].check(changed(cells, given(width=170), each=[*losses[:-1], 1.5 * losses[-1]])).verdict is FAILS
    assert OURS[id].check(changed(cells, given(width=170), of_mean=2 * max(losses))).verdict is FAILS


def test_the_trained_check_of_fixed_encodings() -> None:
    """On synthetic results: fixed encodings near the fresh loss hold, one at twice the loss does not."""

    def made(fixed: list[float]) -> CellResult:
        return CellResult({}, 0, {"loss": [0.001], "error": [1e-5], "fixed": fixed, "fixed_error": [1e-5] * len(fixed)})

    check = OURS["appendix-e.6/one-encoding-for-all-trained"].check
    assert check([made([0.0009, 0.0011])]).verdict is HOLDS
    assert check([made([0.0009, 0.002])]).verdict is FAILS
