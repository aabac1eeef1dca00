"""The claims on training by the polynomial method, on a few steps of both kinds of training."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import polynomial
from tests.studies.cells import changed, claims_of, given

OURS = claims_of(polynomial)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def test_both_kinds_of_training() -> None:
    parameters = {"task": "recall", "size": [3, 2, 2], "attention": "order 3, R = 0.5", "batch": 4, "points": 30}
    results = [polynomial.both(**parameters, steps=4, seed=seed) for seed in (1, 2)]
    for result in results:
        assert result["exact_loss"] != result["polynomial_loss"]
        assert result["exact_loss"][0] == pytest.approx(result["polynomial_loss"][0], abs=1e-3)
        assert 0 < result["logits_differ"] < 0.05
    cells = [CellResult(parameters, seed, result) for seed, result in zip((1, 2), results, strict=True)]
    claim = OURS["does-it-learn/through-the-polynomial"]
    assert claim.check(cells).verdict is HOLDS
    assert claim.check(changed(cells, given(), alike=0.98)).verdict is FAILS
    assert claim.check(changed(cells, given(), polynomial_loss=[1.0, 1.0, 5.0])).verdict is FAILS
