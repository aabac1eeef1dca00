"""The claims on two-hop joins: fair cells, and verdicts that depend on the results."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import join
from separatrix.studies.learning.compute import step_flops
from separatrix.studies.learning.mechanisms import JOINING
from separatrix.studies.learning.tasks.join import Join
from tests.studies.cells import changed, claims_of, given, run_cells

OURS = claims_of(join)
HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED
ENDS = {join.PLAIN: 0.6, join.ONE: 0.5, join.TWO: 0.6, join.PRODUCT: 0.6, join.THREE: 0.95}


def runs(ends: dict[str, float], longer: dict[str, float] | None = None, **parameters: Any) -> list[CellResult]:
    """Results of three seeds of each attention: nearly these accuracies at equal steps and at equal CPU time."""
    return [
        CellResult(
            {"attention": name, "steps": 8, "compute_steps": 9, **parameters},
            seed,
            {
                "step": [8, 9],
                "accuracy": [end + 0.01 * seed] * 2,
                "parameters": 100,
                "step_flops": 1.0,
                "elsewhere": [(longer or ends)[name] + 0.001 * seed] * 2,
            },
        )
        for name, end in ends.items()
        for seed in (1, 2, 3)
    ]


def test_the_construction_detects_a_wrong_answer() -> None:
    claim = OURS["two-hop-joins/by-hand"]
    results = run_cells(claim)
    assert claim.check(changed(results, given(facts=8), by_one_head=1)).verdict is FAILS
    assert claim.check(changed(results, given(facts=8, entities=16), by_one_head=1)).verdict is FAILS
    assert claim.check(changed(results, given(facts=32), by_two_hops=1)).verdict is FAILS


def test_attentions_have_the_same_settings() -> None:
    """All attentions have the same settings and the same seeds, without 0.

    At equal compute, their flops differ by less than one step.
    """
    alike: dict[str, list[Any]] = {}
    for cell in join.joins_layers.cells():
        options = dict(cell.arguments)
        name, steps = options.pop("attention"), options.pop("compute_steps")
        alike.setdefault(name, []).append((cell.seed, options))
        step, spent = (
            step_flops(Join(*options["size"]).task, join.JOIN_SIZES, JOINING[kind], 64) for kind in (name, join.THREE)
        )
        assert 0 <= spent * options["steps"] - step * steps < step
    assert set(alike) == set(JOINING)
    assert len({repr(cells) for cells in alike.values()}) == 1
    assert {seed for cells in alike.values() for seed, _ in cells} == {1, 2, 3}


@pytest.mark.parametrize(
    ("claim", "worse"),
    [
        (join.joins_pairs, join.ONE),
        (join.joins_products, join.PRODUCT),
        (join.joins_layers, join.TWO),
        (join.joins_norms, join.PLAIN),
    ],
)
def test_each_lead_decides(claim, worse) -> None:
    assert claim.check(runs(ENDS)).verdict is HOLDS
    assert claim.check(runs({**ENDS, worse: 0.99})).verdict is FAILS
    noisy = [
        run if run.parameters["attention"] != worse else changed([run], given(), accuracy=[ends, ends])[0]
        for run, ends in zip(runs({**ENDS, worse: 0.95}), [0.5, 0.9, 1.3] * 5, strict=True)
    ]
    assert claim.check(noisy).verdict is OPEN


def test_longer_inputs_need_both_the_accuracy_and_the_lead() -> None:
    assert join.joins_longer.check(runs(ENDS)).verdict is HOLDS
    assert join.joins_longer.check(runs(ENDS, {**ENDS, join.THREE: 0.7})).verdict is FAILS
    assert join.joins_longer.check(runs(ENDS, {**ENDS, join.TWO: 0.99})).verdict is FAILS


def test_a_run_is_judged_on_longer_inputs() -> None:
    options = {"attention": join.ONE, "steps": 2, "compute_steps": 3, "batch": 4, "points": 8, "lr": 0.01}
    found = join.joined(size=[4, 4, 2], longer=[6, 8], seed=1, **options)
    assert len(found["elsewhere"]) == 2
    assert found["step"][-1] == 3


@pytest.mark.parametrize("attention", list(JOINING))
def test_models_have_as_many_parameters(attention: str) -> None:
    options = {"steps": 0, "compute_steps": 0, "batch": 4, "points": 4, "lr": 0.01, "seed": 1}
    counts = [
        join.joined(size=[4, 8, 4], longer=[], attention=name, **options)["parameters"]
        for name in (attention, join.ONE)
    ]
    assert counts[0] == pytest.approx(counts[1], rel=0.01)
