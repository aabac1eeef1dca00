"""The claims on other mechanisms: their verdicts, and results that change them."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.errors import ArgumentError
from separatrix.studies.separation import mechanisms
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(mechanisms)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


PAPERS, GROWS, TAU, REGRESSION = (
    f"other-mechanisms/{part}" for part in ("at-the-paper-s-sizes", "as-n-grows", "best-tau", "softmax-regression")
)
NARROW = {"setting": "cross-attention", "mechanism": "linear, identity"}


@pytest.mark.parametrize(
    ("id", "where", "to"),
    [
        (PAPERS, {"mechanism": "softmax"}, {"success": 0.5}),
        (PAPERS, {"mechanism": "softmax"}, {"papers_success": 0.5}),
        (PAPERS, {"mechanism": "order 3, values once"}, {"success": 0.3}),
        (PAPERS, {"mechanism": "softmax, beta = 4"}, {"success": 0.3}),
        (PAPERS, {"mechanism": "linear, relu"}, {"fires_on_d1": 0.4}),
        (PAPERS, {"mechanism": "linear, identity"}, {"success": 1e-9}),
        (PAPERS, {"mechanism": "linear, elu"}, {"success": 0.3}),
        (PAPERS, {"mechanism": "random features, 64"}, {"success": 0.3}),
        (GROWS, {"mechanism": "linear, taylor2", "n": 10**6}, {"separates": 1e-9}),
        (GROWS, {"mechanism": "softmax", "n": 10**9}, {"separates": 0.5}),
        (GROWS, {"mechanism": "order 3, values once", "n": 10**9}, {"separates": 0.5}),
        (TAU, {"mechanism": "softmax"}, {"best": [0.5] * 12}),
        (TAU, {**NARROW, "n": 20_000}, {"best": [0.2] * 7 + [0.0] * 39}),
        (TAU, {"mechanism": "linear, elu"}, {"best": [0.5] * 12}),
        (TAU, {**NARROW, "n": 200}, {"best": [0.0] * 46}),
        (TAU, {**NARROW, "n": 20_000}, {"best": [0.0] * 46}),
        (TAU, {**NARROW, "n": 20_000}, {"best": [0.2] * 14 + [0.0] * 32}),
        (REGRESSION, {"mechanism": "softmax"}, {"success": [0.8, 0.7, 0.9]}),
        (REGRESSION, {"mechanism": "linear, taylor2"}, {"success": [0.1, 0.05, 0.2]}),
        (REGRESSION, {"mechanism": "random features, 64"}, {"success": [0.15, 0.1, 0.2]}),
        (REGRESSION, {"mechanism": "softmax, beta = 0.25"}, {"success": [0.5, 0.4, 0.6]}),
        (REGRESSION, {"mechanism": "order 3, values twice"}, {"success": [0.5, 0.4, 0.6]}),
        (REGRESSION, {"mechanism": "softmax, beta = 4"}, {"silent_on_d0": [1.0, 0.99, 1.0]}),
    ],
)
def test_another_mechanism_result_is_another_verdict(id: str, where: dict[str, Any], to: dict[str, Any]) -> None:
    assert OURS[id].check(changed(ran(id), given(**where), **to)).verdict is FAILS


def test_names_are_checked() -> None:
    with pytest.raises(ArgumentError, match="mechanism"):
        mechanisms.mechanism_of("hard attention", 0)
