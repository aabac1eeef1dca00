"""Joins learned in stages: fair cells, a verdict that depends on the accuracy, and a short run."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import join_stages as stages
from separatrix.studies.learning.join import ONE, PRODUCT, THREE, TWO, joined
from separatrix.studies.learning.join_alike import DETERMINANT, MIXED, PAIRWISE, RATES
from tests.studies.cells import claims_of

OURS = claims_of(stages)
HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED


FORMS = (PAIRWISE, DETERMINANT, MIXED)


def runs(end: float, spread: float = 0.0, before: float = 0.2) -> list[CellResult]:
    """Results of three seeds: order 3 in every form with this final accuracy, and attentions that learn nothing."""
    accuracies = dict.fromkeys((ONE, TWO, PRODUCT), (0.1, 0.1)) | dict.fromkeys((THREE, *FORMS), (before, end))
    return [
        CellResult(
            {"attention": name},
            seed,
            {
                "accuracy": [[first + spread * seed] * 4] * 3 + [[last + spread * seed] * 4],
                "parameters": 100,
                "flops": 1.0,
            },
        )
        for name, (first, last) in accuracies.items()
        for seed in (1, 2, 3)
    ]


def test_the_accuracy_decides() -> None:
    check = stages.stages_64.check
    assert check(runs(0.99)).verdict is HOLDS
    assert check(runs(0.8)).verdict is FAILS
    assert check(runs(0.8, spread=0.05)).verdict is OPEN
    assert check(runs(0.99), stage=0).verdict is FAILS
    assert check(runs(0.99, before=0.99), stage=0).verdict is HOLDS
    assert check(runs(0.99), name=ONE).verdict is FAILS
    unequal = runs(0.99)
    unequal[0].result["parameters"] = 110  # type: ignore[index]
    assert check(unequal).verdict is FAILS


@pytest.mark.parametrize(("claim", "worse"), [("one", ONE), ("one", PRODUCT), ("two", TWO)])
def test_each_lead_decides(claim: str, worse: str) -> None:
    check = {"one": stages.stages_one, "two": stages.stages_two}[claim].check
    assert check(runs(0.99)).verdict is HOLDS
    assert check(runs(0.99), turned=True).verdict is FAILS
    assert check(runs(0.99), by=0.95).verdict is FAILS
    for end, verdict in ((0.9, FAILS), (0.1, HOLDS), (None, OPEN)):
        changed = runs(0.5)
        for run in changed:
            if run.parameters["attention"] == worse:
                run.result["accuracy"][-1] = [0.3 * run.seed if end is None else end] * 4
        assert check(changed).verdict is verdict


@pytest.mark.parametrize("form", FORMS)
def test_each_form_decides(form: str) -> None:
    check = stages.stages_forms.check
    assert check(runs(0.99)).verdict is HOLDS
    assert check(runs(0.99), turned=True).verdict is FAILS
    for end, verdict in ((0.01, FAILS), (None, OPEN)):
        changed = runs(0.99)
        for run in changed:
            if run.parameters["attention"] == form:
                run.result["accuracy"][-1] = [0.3 * (run.seed - 1) if end is None else end] * 4
        assert check(changed).verdict is verdict


@pytest.mark.parametrize("claim", OURS)
def test_models_are_trained_alike(claim: str) -> None:
    settings = set()
    for cell in OURS[claim].cells():
        options = dict(cell.arguments)
        assert options.pop("lr") == RATES[options.pop("attention")]
        settings.add(repr(sorted(options.items(), key=str)))
    assert len(settings) == 1


def test_the_first_stage_is_a_run_on_joins() -> None:
    """A run of one stage has the accuracy of the same run of `joined`, and a second stage changes the model."""
    how = {"attention": THREE, "batch": 4, "points": 32, "lr": 0.01, "seed": 1}
    alone = joined(size=[3, 4, 2], longer=[4], steps=8, compute_steps=8, **how)
    run = stages.joined_in_stages(facts=[3, 4], steps=[8, 8], entities=4, relations=2, **how)
    assert run["accuracy"][0] == [alone["accuracy"][-1], *alone["elsewhere"]]
    assert run["parameters"] == alone["parameters"]
    longer = stages.joined_in_stages(facts=[3, 4], steps=[8, 40], entities=4, relations=2, **how)
    assert longer["accuracy"][0] == run["accuracy"][0]
    assert longer["accuracy"][1] != run["accuracy"][1]
