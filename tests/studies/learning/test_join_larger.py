"""The claims on joins among 16 and 32 facts: fair cells, and verdicts that depend on leads."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.studies.learning import join_alike as alike
from separatrix.studies.learning import join_larger as larger
from separatrix.studies.learning.join import ONE, PRODUCT, THREE, TWO
from tests.studies.cells import claims_of
from tests.studies.learning.test_join_alike import ENDS, runs

OURS = claims_of(larger)
HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED


@pytest.mark.parametrize("id", OURS)
def test_attentions_are_treated_alike(id: str) -> None:
    """Seeds, settings and CPU time are equal, and each learning rate is from the same list."""
    settings: dict[str, list[Any]] = {}
    for cell in OURS[id].cells():
        options = dict(cell.arguments)
        name, steps, rate = options.pop("attention"), options.pop("compute_steps"), options.pop("lr")
        settings.setdefault(name, []).append((cell.seed, options))
        times = alike.MILLISECONDS[options["size"][0]]
        assert 0 <= times[THREE] * options["steps"] - times[name] * steps < times[name]
        assert rate == alike.RATES[name]
    assert len({repr(cells) for cells in settings.values()}) == 1
    assert {seed for cells in settings.values() for seed, _ in cells} == {1, 2, 3}
    facts, entities, _ = cell.arguments["size"]
    assert facts <= 4 * entities


@pytest.mark.parametrize(
    ("claim", "better", "worse"),
    [
        (larger.larger_16, THREE, ONE),
        (larger.larger_32, THREE, PRODUCT),
        (larger.layers_16, THREE, TWO),
        (larger.layers_32, THREE, TWO),
        (larger.forms_16, alike.MIXED, ONE),
    ],
    ids=lambda value: getattr(value, "id", str(value)),
)
def test_each_lead_decides(claim, better, worse) -> None:
    facts = (32,) if claim in (larger.larger_32, larger.layers_32) else (16,)
    assert claim.check(runs(ENDS, facts)).verdict is HOLDS
    assert claim.check(runs({**ENDS, worse: 0.99}, facts)).verdict is FAILS
    assert claim.check(runs({**ENDS, better: 0.1}, facts)).verdict is FAILS
    assert claim.check(runs(ENDS, facts), turned=True).verdict is FAILS
    assert claim.check(runs(ENDS, facts), by=0.95).verdict is FAILS
    assert claim.check(runs(ENDS, facts, spread=0.3)).verdict is OPEN
