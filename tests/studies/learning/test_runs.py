"""The claims on small trained models: fair cells, and verdicts that depend on the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from separatrix.claims.ledger import CellResult, Claim, Interval, Verdict
from separatrix.studies.learning import growth, match, polynomial, recall, runs, text
from separatrix.studies.learning.mechanisms import MECHANISMS, mechanism
from separatrix.studies.learning.runs import WITH_PRODUCT, Expectation, finding, learned, learned_text, task_of
from separatrix.studies.learning.tasks.text import text_task
from separatrix.studies.seeds import paired
from tests.studies.cells import claims_of

TRAINED = (recall, match, text)
OURS = claims_of(*TRAINED, growth, polynomial)
HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED


def training(claim: Claim) -> bool:
    return next(iter(claim.cells())).experiment in (learned.name, learned_text.name)


@pytest.mark.parametrize("id", [id for id, claim in OURS.items() if training(claim)])
def test_attentions_have_the_same_settings(id: str) -> None:
    """All attentions have the same settings and the same seeds, without 0.

    At equal compute, their flops differ by less than one step.
    """
    kinds: dict[str, list[Any]] = {}
    spent: dict[str, float] = {}
    step: dict[str, float] = {}
    for cell in OURS[id].cells():
        arguments = dict(cell.arguments)
        name, steps = arguments.pop("attention"), arguments.pop("compute_steps")
        kinds.setdefault(name, []).append((cell.seed, arguments))
        task = text_task(*arguments["size"]) if "text" in arguments else task_of(arguments["task"], arguments["size"])
        step[name] = runs.step_flops(task, runs.SIZES, mechanism(name), arguments["batch"])
        spent[name] = steps * step[name]
    (alike,) = {repr(cells) for cells in kinds.values()}
    assert "(0, {" not in alike
    budget = max(spent.values())
    assert all(budget - step[name] < used <= budget for name, used in spent.items())
    if OURS[id].profile == "full":
        assert set(kinds) == set(WITH_PRODUCT if "product" in id else MECHANISMS)


def test_a_run_is_judged_at_both_readings() -> None:
    parameters = {"task": "recall", "size": [3, 2, 2], "attention": "order 2", "batch": 4, "points": 40}
    result = learned(**parameters, steps=8, compute_steps=11, seed=1)
    assert result["step"] == [*range(9), 11]
    cell = CellResult({**parameters, "steps": 8, "compute_steps": 11}, 1, result)
    assert runs.at(cell, "steps", "loss") == result["loss"][8]
    assert runs.at(cell, "compute_steps", "accuracy") == result["accuracy"][-1]
    assert learned(**parameters, steps=8, compute_steps=8, seed=1)["loss"] == result["loss"][:9]


def run(attention: str, seed: int, early: float, late: float, parameters: int = 1000) -> CellResult:
    """A result with these accuracies at equal steps and at equal compute; the loss is one minus the accuracy."""
    values = [0.25, early, late]
    result = {"step": [0, 10, 20], "accuracy": values, "loss": [1 - value for value in values]}
    cell_parameters = {"attention": attention, "task": "recall", "steps": 10, "compute_steps": 20, "size": [3, 2, 2]}
    return CellResult(cell_parameters, seed, {**result, "parameters": parameters, "step_flops": 7.0})


def made(**ends: tuple[float, float]) -> list[CellResult]:
    """Results of three seeds of each attention, with small differences between the seeds."""
    return [
        run(name, seed, early + 0.01 * seed, late + 0.01 * seed)
        for name, (early, late) in ends.items()
        for seed in (1, 2, 3)
    ]


def on_a_text(cells: Sequence[CellResult]) -> list[CellResult]:
    """Results like the given ones, with the entries of runs that read a text."""
    return [
        replace(cell, parameters={**cell.parameters, "text": "0123"}, result={**cell.result, "python": "3.99.1"})
        for cell in cells
    ]


AHEAD = Expectation("order 3", "order 2")
LATER = Expectation("order 3", "order 2", "compute_steps")


@pytest.mark.parametrize("what", ["accuracy", "loss"])
@pytest.mark.parametrize(
    ("third", "second", "verdict"),
    [((0.9, 0.9), (0.5, 0.5), HOLDS), ((0.9, 0.9), (0.5, 0.95), FAILS), ((0.4, 0.9), (0.5, 0.5), FAILS)],
)
def test_the_verdict_is_that_of_the_leads(
    what: Any, third: tuple[float, float], second: tuple[float, float], verdict: Verdict
) -> None:
    cells = made(**{"order 2": second, "order 3": third})
    assert finding(cells, what, (AHEAD, LATER)).verdict is verdict
    assert finding(cells[::-1], what, (AHEAD, LATER)).numbers == finding(cells, what, (AHEAD, LATER)).numbers


def test_an_insignificant_lead_decides_nothing() -> None:
    """Leads of 0.3, 0.01 and -0.2 in three seeds are not significant, and decide nothing."""
    cells = [run("order 2", seed, 0.5, 0.5) for seed in (1, 2, 3)]
    cells += [run("order 3", seed, 0.5 + lead, 0.9) for seed, lead in ((1, 0.3), (2, 0.01), (3, -0.2))]
    assert finding(cells, "accuracy", (AHEAD, LATER)).verdict is OPEN
    lead = finding(cells, "accuracy", (AHEAD,)).numbers[f"{AHEAD}: accuracy"]
    assert isinstance(lead, Interval)
    assert (lead.value, lead.high) == pytest.approx((0.11 / 3, paired([0.3, 0.01, -0.2], [0.0] * 3).high))


def test_more_parameters_fail() -> None:
    cells = made(**{"order 2": (0.5, 0.5), "order 3": (0.9, 0.9)})
    larger = [*cells[:-1], replace(cells[-1], result={**cells[-1].result, "parameters": 1011})]
    assert finding(larger, "accuracy", (AHEAD,)).verdict is FAILS


@pytest.mark.parametrize("id", [id for id, claim in OURS.items() if training(claim)])
def test_every_claim_can_hold_and_fail(id: str) -> None:
    """With the expected results the claim holds; with reversed results it fails."""
    claim = OURS[id]
    names = list(dict.fromkeys(cell.arguments["attention"] for cell in claim.cells()))
    good = dict.fromkeys(names, (0.5, 0.5)) | {name: (0.9, 0.9) for name in ("order 3", "order 3, R = 4")}
    if "text" in id:
        better = {"order 2": (0.9, 0.9), "order 3, R = 0.5": (0.8, 0.8), "product of two order 2": (0.8, 0.8)}
        good = dict.fromkeys(names, (0.3, 0.3)) | better
    bad = {name: (1 - early, 1 - late) for name, (early, late) in good.items()}
    for ends, verdict in ((good, HOLDS), (bad, FAILS)):
        judged: Sequence[CellResult] = made(**{name: ends[name] for name in names})
        assert claim.check(on_a_text(judged) if "text" in id else judged).verdict is verdict
