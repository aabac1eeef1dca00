"""The claims on settings of a layer on triples, recall and text: fair cells, and verdicts that depend on leads."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import layer_settings_tasks as tasks
from separatrix.studies.learning.layer_settings import PLAIN, QK
from separatrix.studies.learning.mechanisms import LAYERS
from separatrix.studies.learning.runs import RECORDED_TEXT

HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED


def runs(leads: dict[str, float], spread: float = 0.01, text: str = RECORDED_TEXT) -> list[CellResult]:
    """Results of five seeds for all layers: the layer with `qk_norm` leads on some tasks, and the other differences are
    noise.
    """
    return [
        CellResult(
            {"task": task, "text": text if task == "text" else None, "attention": name, "steps": 8, "compute_steps": 8},
            seed,
            {
                "step": [8],
                "accuracy": [0.5 + leads.get(task, 0.0) * (name == QK) + spread * (seed * (place + 2) % 3)],
                "loss": [2.5 - leads.get(task, 0.0) * (name == QK) + spread * (seed * (place + 2) % 3)],
                "parameters": 100,
            },
        )
        for task in tasks.TASKS
        for place, name in enumerate(LAYERS)
        for seed in tasks.SEEDS
    ]


def test_a_lead_on_one_task_and_none_behind_decides() -> None:
    check = tasks.task_qk.check
    assert check(runs({})).verdict is OPEN
    for task in tasks.TASKS:
        assert check(runs({task: 0.3})).verdict is HOLDS
        assert check(runs({task: -0.3})).verdict is FAILS
        assert check(runs({task: 0.3}), turned=True).verdict is FAILS
        assert check(runs({task: 0.3}), by=0.5).verdict is FAILS
    assert check(runs({"match": 0.3, "text": -0.3})).verdict is FAILS
    assert check(runs({"match": 0.3}, spread=0.5)).verdict is OPEN
    unequal = runs({"match": 0.3})
    unequal[0].result["parameters"] = 110  # type: ignore[index]
    assert check(unequal).verdict is FAILS


def test_another_text_compares_to_no_record() -> None:
    assert tasks.task_qk.check(runs({"match": 0.3})).comparable
    assert not tasks.task_qk.check(runs({"match": 0.3}, text="0123")).comparable


def test_layers_are_treated_alike() -> None:
    settings: dict[str, set[str]] = {}
    for cell in tasks.task_qk.cells():
        options = dict(cell.arguments)
        name = options.pop("attention")
        assert options.pop("lr") == tasks.RATES[options["task"]][name]
        settings.setdefault(name, set()).add(repr((cell.seed, sorted(options.items(), key=str))))
    assert set(settings) == set(LAYERS)
    assert len({frozenset(some) for some in settings.values()}) == 1
    assert {rate for rates in tasks.RATES.values() for rate in rates.values()} <= set(tasks.TRIED)


def tried(task: str, name: str, rate: float, accuracy: float, loss: float) -> CellResult:
    parameters = {"task": task, "text": None, "attention": name, "lr": rate}
    return CellResult(parameters, 0, {"accuracy": [accuracy], "loss": [loss]})


@pytest.mark.parametrize(
    ("task", "low", "high", "best"),
    [
        ("match", (0.8, 1.0), (0.9, 2.0), 0.01),
        ("recall", (0.9, 1.0), (0.9, 0.5), 0.005),
        ("text", (0.8, 2.0), (0.9, 2.1), 0.005),
        ("text", (0.9, 2.1), (0.8, 2.0), 0.01),
    ],
)
def test_the_rule_for_rates(task, low, high, best) -> None:
    """The rate with the larger accuracy, or the smaller loss on text, is chosen, and the smaller rate if they are
    equal.
    """
    found = [tried(task, PLAIN, 0.005, *low), tried(task, PLAIN, 0.01, *high)]
    assert tasks.best_rates(task, found) == {PLAIN: best}


def test_other_rates_are_not_those_of_the_rule() -> None:
    cells = [
        tried(task, name, rate, float(rate == best), 1.0 - (rate == best))
        for task, rates in tasks.RATES.items()
        for name, best in rates.items()
        for rate in tasks.TRIED
    ]
    assert tasks.setting_rates.check(cells).verdict is HOLDS
    assert tasks.setting_rates.check(cells, other=True).verdict is FAILS


def test_a_run_on_text_and_on_drawn_inputs() -> None:
    options = {"attention": QK, "steps": 2, "compute_steps": 2, "batch": 2, "points": 4, "lr": 0.01, "seed": 1}
    for task, size in (("match", [8, 11]), ("text", [32])):
        found = tasks.trained_setting(task=task, text=None, size=size, **options)
        assert found["step"] == [0, 1, 2]
