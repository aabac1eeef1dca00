"""The claims on bounded scores: flops, bytes and errors, at small lengths."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import growth
from tests.studies.cells import changed, claims_of, given

OURS = claims_of(growth)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


@pytest.fixture(scope="module")
def grown() -> tuple[CellResult, ...]:
    cells = OURS["does-it-learn/what-r-buys"].cells()
    small = [cell for cell in cells if cell.arguments["n"] <= 64 and cell.experiment == growth.stepped.name]
    results = [growth.stepped(seed=0, **cell.arguments) for cell in small]
    return tuple(CellResult(cell.arguments, 0, result) for cell, result in zip(small, results, strict=True))


def test_the_benefit_of_a_bound(grown: tuple[CellResult, ...]) -> None:
    claim = OURS["does-it-learn/what-r-buys"]
    assert claim.check(grown).verdict is HOLDS
    last = given(attention="order 3, R = 1", n=64)
    for to in ({"peak_bytes": 10**9}, {"kept_bytes": 1}, {"error": 0.02}):
        assert claim.check(changed(grown, last, **to)).verdict is FAILS, to


def test_bytes_kept_are_those_of_the_keys_and_of_the_state(grown: tuple[CellResult, ...]) -> None:
    """By hand at n = 64: order 3 keeps 4 sets of 64 x 16 in float32, a state 2 sets of 4 x 15 x 5 in float64."""
    kept = {cell.parameters["attention"]: cell.result["kept_bytes"] for cell in grown if cell.parameters["n"] == 64}
    assert kept["order 2"] == 2 * 64 * 16 * 4
    assert kept["order 3"] == 4 * 64 * 16 * 4
    assert kept["order 3, R = 0.5"] == 2 * 4 * 15 * 5 * 8
    assert kept["linear elu"] == 4 * 4 * 5 * 4


def test_flops_cross_where_they_are_said_to() -> None:
    def at(n: int, flops: float) -> CellResult:
        return CellResult({"n": n}, 0, {"flops": flops})

    assert growth.crossing(at(10, 2.0 * 10**3), at(20, 50.0 * 20), 3) == pytest.approx(5.0)
