"""The claims on joins with settings from one rule: fair cells, the rule for learning rates, and verdicts by leads."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import join_alike as alike
from separatrix.studies.learning.join import ONE, PRODUCT, THREE, TWO
from separatrix.studies.learning.mechanisms import JOINING_ALIKE
from separatrix.studies.learning.tasks.import_graph import RECORDED_GRAPH, digest

HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED
ENDS = {ONE: 0.5, TWO: 0.6, PRODUCT: 0.6, THREE: 0.9, alike.PAIRWISE: 0.95, alike.DETERMINANT: 0.8, alike.MIXED: 0.8}


def runs(ends: dict[str, float], facts: tuple[int, ...] = (8,), spread: float = 0.01, **same: Any) -> list[CellResult]:
    """Results of three seeds of each attention: these accuracies; those below 0.7 differ by `spread` between seeds."""
    return [
        CellResult(
            {"attention": name, "steps": 1200, "compute_steps": 1300, "size": [count, 8, 4], "lr": 0.01, **same},
            seed,
            {
                "step": [0, 600, 1200, 1300],
                "accuracy": [0.1, *[end + (spread if end < 0.7 else 0.001) * (seed - 2)] * 3],
                "parameters": 100,
                "step_flops": 1.0,
                "elsewhere": [end + 0.001 * seed] * 3,
            },
        )
        for count in facts
        for name, end in ends.items()
        for seed in (1, 2, 3)
    ]


@pytest.mark.parametrize("claim", [alike.alike_forms, alike.imports_one], ids=lambda claim: claim.id)
def test_attentions_have_the_same_settings(claim) -> None:
    """Seeds, settings and CPU time are equal, and learning rates are from the same list."""
    alike_cells: dict[str, list[Any]] = {}
    for cell in claim.cells():
        options = dict(cell.arguments)
        name, steps, rate = options.pop("attention"), options.pop("compute_steps"), options.pop("lr")
        alike_cells.setdefault(name, []).append((cell.seed, options))
        step, spent = (alike.MILLISECONDS[8][kind] for kind in (name, THREE))
        assert 0 <= spent * options["steps"] - step * steps < step
        assert rate == alike.RATES[name]
        assert rate in alike.TRIED
    assert len({repr(cells) for cells in alike_cells.values()}) == 1
    assert {seed for cells in alike_cells.values() for seed, _ in cells} == {1, 2, 3}


def test_rates_are_tried_for_every_attention_with_seed_0() -> None:
    tried = [(cell.arguments["attention"], cell.arguments["lr"], cell.seed) for cell in alike.alike_rates.cells()]
    assert sorted(tried) == sorted((name, rate, 0) for name in JOINING_ALIKE for rate in alike.TRIED)


def tried(name: str, rate: float, *accuracies: float) -> CellResult:
    steps = list(range(len(accuracies)))
    return CellResult({"attention": name, "lr": rate}, 0, {"step": steps, "accuracy": list(accuracies)})


@pytest.mark.parametrize(
    ("accuracies", "best"),
    [
        (((0.1, 0.8), (0.2, 0.9)), 0.01),
        (((0.1, 0.9), (0.2, 0.8)), 0.002),
        (((0.1, 0.995, 0.995), (0.995, 0.995, 0.995)), 0.01),
        (((0.1, 0.9), (0.1, 0.9)), 0.002),
    ],
)
def test_the_rule_for_rates(accuracies, best) -> None:
    """The final accuracy decides, then the number of steps to 0.99, then the smaller learning rate."""
    first, second = accuracies
    assert alike.best_rates([tried(ONE, 0.002, *first), tried(ONE, 0.01, *second)]) == {ONE: best}


def test_other_rates_are_not_those_of_the_rule() -> None:
    cells = [tried(name, rate, float(rate == best)) for name, best in alike.RATES.items() for rate in alike.TRIED]
    assert alike.alike_rates.check(cells).verdict is HOLDS
    assert alike.alike_rates.check(cells, rate=0.01).verdict is FAILS


@pytest.mark.parametrize(
    ("claim", "worse", "facts"),
    [
        (alike.alike_8, ONE, (8,)),
        (alike.alike_8, PRODUCT, (8,)),
        (alike.layers_8, TWO, (8,)),
        (alike.imports_one, ONE, (8,)),
        (alike.imports_one, PRODUCT, (8,)),
        (alike.imports_8, TWO, (8,)),
        (alike.alike_sooner, TWO, (8,)),
    ],
    ids=lambda value: getattr(value, "id", str(value)),
)
def test_each_lead_decides(claim, worse, facts) -> None:
    assert claim.check(runs(ENDS, facts)).verdict is HOLDS
    assert claim.check(runs({**ENDS, worse: 0.99}, facts)).verdict is FAILS
    assert claim.check(runs(ENDS, facts), turned=True).verdict is FAILS
    assert claim.check(runs(ENDS, facts), by=0.95).verdict is FAILS
    assert claim.check(runs(ENDS, facts, spread=0.3)).verdict is OPEN
    unequal = runs(ENDS, facts)
    unequal[0].result["parameters"] = 110  # type: ignore[index]
    assert claim.check(unequal).verdict is FAILS


@pytest.mark.parametrize("worse", [alike.PAIRWISE, alike.DETERMINANT, alike.MIXED])
def test_every_other_layer_must_be_ahead(worse) -> None:
    assert alike.alike_forms.check(runs(ENDS)).verdict is HOLDS
    assert alike.alike_forms.check(runs({**ENDS, worse: 0.4})).verdict is FAILS


def test_one_number_of_facts_can_decide() -> None:
    split = runs(ENDS, (8,)) + runs({**ENDS, THREE: 0.3}, (16,))
    assert alike.alike_sooner.check(split).verdict is FAILS  # as with more numbers of facts
    assert alike.alike_pairwise.check(runs(ENDS)).verdict is HOLDS
    assert alike.alike_pairwise.check(runs({**ENDS, alike.PAIRWISE: 0.3})).verdict is FAILS


def test_sooner_is_judged_by_the_evaluations_during_training() -> None:
    (run,) = [run for run in runs(ENDS) if run.parameters["attention"] == THREE and run.seed == 2]
    run.result["accuracy"][:] = [0.0, 0.2, 0.4, 0.9]
    assert alike._sooner(run).result["accuracy"] == pytest.approx([0.3] * 4)


def test_longer_inputs_need_every_lead() -> None:
    assert alike.alike_longer.check(runs(ENDS)).verdict is HOLDS
    assert alike.alike_longer.check(runs(ENDS), turned=True).verdict is FAILS
    worse = runs(ENDS)
    for run in worse:
        run.result["elsewhere"][2] = 0.9 - ENDS[run.parameters["attention"]] + 0.001 * run.seed**2
    assert alike.alike_longer.check(worse).verdict is FAILS


def test_another_graph_compares_to_no_record() -> None:
    assert not alike.imports_8.check(runs(ENDS, graph="0123")).comparable
    assert alike.imports_8.check(runs(ENDS, graph=RECORDED_GRAPH)).comparable


def test_a_run_on_imports() -> None:
    options = {"steps": 2, "compute_steps": 3, "batch": 4, "points": 8, "lr": 0.01, "seed": 1}
    found = alike.joined_imports(graph=digest(), size=[4, 8], attention=alike.MIXED, **options)
    assert found["step"] == [0, 1, 2, 3]
