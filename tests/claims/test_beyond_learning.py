"""The claims on what small models learn: fair cells, verdicts that hang on the results, and recorded ones."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from separatrix.claims.beyond import (
    learning_growth,
    learning_match,
    learning_polynomial,
    learning_recall,
    learning_runs,
    learning_text,
)
from separatrix.claims.beyond.learning_runs import Expectation, finding, learned, learned_text, match_task, task_of
from separatrix.claims.beyond.matching_training import paired
from separatrix.claims.ledger import Claim, Found, Interval, Verdict
from separatrix.claims.verdicts import expected
from separatrix.errors import ArgumentError
from separatrix.hardness.matching import match_labels
from separatrix.learning.mechanisms import MECHANISMS
from separatrix.learning.text import digest, text_task
from tests.claims.beyond_cells import changed, claims_of, given, run_cells

TRAINED = (learning_recall, learning_match, learning_text)
OURS = claims_of(*TRAINED, learning_growth, learning_polynomial)
HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED


def training(claim: Claim) -> bool:
    return next(iter(claim.cells())).experiment in (learned.name, learned_text.name)


def test_every_claim_is_recorded_and_has_a_figure() -> None:
    recorded = expected()
    assert len(OURS) == 13
    for id, one in OURS.items():
        assert f"beyond/{id}" in recorded
        assert one.figures
        assert not one.errata


@pytest.mark.parametrize("id", [id for id, one in OURS.items() if training(one)])
def test_attentions_are_treated_alike(id: str) -> None:
    """The same seeds and settings; flops spent at equal compute within one step of each other; never seed 0."""
    kinds: dict[str, list[Any]] = {}
    spent: dict[str, float] = {}
    step: dict[str, float] = {}
    for cell in OURS[id].cells():
        given = dict(cell.arguments)
        name, steps = given.pop("attention"), given.pop("compute_steps")
        kinds.setdefault(name, []).append((cell.seed, given))
        task = text_task(*given["size"]) if "text" in given else task_of(given["task"], given["size"])
        step[name] = learning_runs.step_flops(task, learning_runs.SIZES, MECHANISMS[name], given["batch"])
        spent[name] = steps * step[name]
    (alike,) = {repr(cells) for cells in kinds.values()}
    assert "(0, {" not in alike
    budget = max(spent.values())
    assert all(budget - step[name] < used <= budget for name, used in spent.items())
    if OURS[id].profile == "full":
        assert set(kinds) == set(MECHANISMS)


def test_a_match_asks_the_last_token() -> None:
    batch = match_task(6, 11).training(40, torch.Generator().manual_seed(0))
    x = batch.tokens[..., 0]
    assert torch.equal(match_labels(x, 11, 3)[:, -1].long(), batch.answers[:, 0])
    assert 0 < int(batch.answers.sum()) < 40


def test_a_run_is_judged_at_both_readings() -> None:
    parameters = {"task": "recall", "size": [3, 2, 2], "attention": "order 2", "batch": 4, "points": 40}
    result = learned(**parameters, steps=8, compute_steps=11, seed=1)
    assert result["step"] == [*range(9), 11]
    one = Found({**parameters, "steps": 8, "compute_steps": 11}, 1, result)
    assert learning_runs.at(one, "steps", "loss") == result["loss"][8]
    assert learning_runs.at(one, "compute_steps", "accuracy") == result["accuracy"][-1]
    assert learned(**parameters, steps=8, compute_steps=8, seed=1)["loss"] == result["loss"][:9]


def test_a_run_on_text_names_the_text_and_the_python_that_brought_it() -> None:
    parameters = {"size": [4], "attention": "order 2", "steps": 1, "compute_steps": 1, "batch": 2, "points": 4}
    result = learned_text(text=digest(), **parameters, seed=1)
    assert result["python"] == platform.python_version()
    assert result["step"] == [0, 1]
    for experiment in (learned_text, learning_polynomial.both_text):
        given = {name: value for name, value in parameters.items() if name in experiment.hints}
        with pytest.raises(ArgumentError, match=r"text: expected the SHA-256 of this Python's text, [0-9a-f]{64}, got"):
            experiment(text="another", **given, seed=1)


def test_cells_on_text_name_the_text() -> None:
    for id, one in OURS.items():
        texts = {cell.arguments["text"] for cell in one.cells() if "text" in cell.experiment}
        assert texts == ({digest()} if "text" in id or id.endswith("polynomial-longer") else set())


def run(attention: str, seed: int, early: float, late: float, parameters: int = 1000) -> Found:
    """Its accuracy at equal steps and at equal compute; its loss is one less that."""
    values = [0.25, early, late]
    result = {"step": [0, 10, 20], "accuracy": values, "loss": [1 - value for value in values]}
    given = {"attention": attention, "task": "recall", "steps": 10, "compute_steps": 20, "size": [3, 2, 2]}
    return Found(given, seed, {**result, "parameters": parameters, "step_flops": 7.0})


def made(**ends: tuple[float, float]) -> list[Found]:
    """Three seeds of each attention, a little apart."""
    return [
        run(name, seed, early + 0.01 * seed, late + 0.01 * seed)
        for name, (early, late) in ends.items()
        for seed in (1, 2, 3)
    ]


AHEAD = Expectation("order 3", "order 2")
LATER = Expectation("order 3", "order 2", "compute_steps")


@pytest.mark.parametrize("what", ["accuracy", "loss"])
@pytest.mark.parametrize(
    ("third", "second", "verdict"),
    [
        ((0.9, 0.9), (0.5, 0.5), HOLDS),
        ((0.9, 0.9), (0.5, 0.95), FAILS),
        ((0.4, 0.9), (0.5, 0.5), FAILS),
    ],
)
def test_the_verdict_is_that_of_the_leads(
    what: Any, third: tuple[float, float], second: tuple[float, float], verdict: Verdict
) -> None:
    found = made(**{"order 2": second, "order 3": third})
    assert finding(found, what, (AHEAD, LATER)).verdict is verdict
    assert finding(found[::-1], what, (AHEAD, LATER)).numbers == finding(found, what, (AHEAD, LATER)).numbers


def test_a_lead_within_chance_decides_nothing() -> None:
    """Leads of 0.3, 0.01 and -0.2 in the three seeds."""
    found = [run("order 2", seed, 0.5, 0.5) for seed in (1, 2, 3)]
    found += [run("order 3", seed, 0.5 + lead, 0.9) for seed, lead in ((1, 0.3), (2, 0.01), (3, -0.2))]
    assert finding(found, "accuracy", (AHEAD, LATER)).verdict is OPEN
    lead = finding(found, "accuracy", (AHEAD,)).numbers[f"{AHEAD}: accuracy"]
    assert isinstance(lead, Interval)
    assert (lead.value, lead.high) == pytest.approx((0.11 / 3, paired([0.3, 0.01, -0.2], [0.0] * 3).high))


def test_more_parameters_fail() -> None:
    found = made(**{"order 2": (0.5, 0.5), "order 3": (0.9, 0.9)})
    larger = [*found[:-1], replace(found[-1], result={**found[-1].result, "parameters": 1011})]
    assert finding(larger, "accuracy", (AHEAD,)).verdict is FAILS


@pytest.mark.parametrize("id", [id for id, one in OURS.items() if training(one)])
def test_every_claim_can_hold_and_fail(id: str) -> None:
    """With results as expected it holds; with the same turned round it fails."""
    claim = OURS[id]
    names = list(dict.fromkeys(cell.arguments["attention"] for cell in claim.cells()))
    good = dict.fromkeys(names, (0.5, 0.5)) | {name: (0.9, 0.9) for name in ("order 3", "order 3, R = 4")}
    if "text" in id:
        good = dict.fromkeys(names, (0.3, 0.3)) | {"order 2": (0.9, 0.9), "order 3, R = 0.5": (0.8, 0.8)}
    bad = {name: (1 - early, 1 - late) for name, (early, late) in good.items()}
    judged: Sequence[Found] = made(**{name: good[name] for name in names})
    assert claim.check(judged).verdict is HOLDS
    assert claim.check(made(**{name: bad[name] for name in names})).verdict is FAILS


def test_recall_by_hand_is_recorded_and_sees_a_wrong_answer() -> None:
    claim = OURS["does-it-learn/recall-by-hand"]
    found = run_cells(claim)
    assert claim.check(found).verdict is expected()[claim.id] is HOLDS
    assert claim.check(changed(found, given(order=4), by_one_head=1)).verdict is FAILS
    assert claim.check(changed(found, given(order=3), by_two_hops=1)).verdict is FAILS


@pytest.fixture(scope="module")
def grown() -> tuple[Found, ...]:
    cells = OURS["does-it-learn/what-r-buys"].cells()
    small = [cell for cell in cells if cell.arguments["n"] <= 64 and cell.experiment == learning_growth.stepped.name]
    results = [learning_growth.stepped(seed=0, **cell.arguments) for cell in small]
    return tuple(Found(cell.arguments, 0, result) for cell, result in zip(small, results, strict=True))


def test_what_a_bound_buys(grown: tuple[Found, ...]) -> None:
    claim = OURS["does-it-learn/what-r-buys"]
    assert claim.check(grown).verdict is HOLDS
    last = given(attention="order 3, R = 1", n=64)
    for to in ({"flops": 1e9}, {"peak_bytes": 10**9}, {"kept_bytes": 1}, {"error": 0.02}):
        assert claim.check(changed(grown, last, **to)).verdict is FAILS, to


def test_bytes_kept_are_those_of_the_keys_and_of_the_state(grown: tuple[Found, ...]) -> None:
    """By hand at n = 64: order 3 keeps 4 sets of 64 x 16 in float32, a state 2 sets of 4 heads x 35 x 5 in float64."""
    kept = {one.parameters["attention"]: one.result["kept_bytes"] for one in grown if one.parameters["n"] == 64}
    assert kept["order 2"] == 2 * 64 * 16 * 4
    assert kept["order 3"] == 4 * 64 * 16 * 4
    assert kept["order 3, R = 0.5"] == 2 * 4 * 35 * 5 * 8
    assert kept["linear elu"] == 4 * 4 * 5 * 4


def test_flops_cross_where_they_are_said_to() -> None:
    def at(n: int, flops: float) -> Found:
        return Found({"n": n}, 0, {"flops": flops})

    assert learning_growth.crossing(at(10, 2.0 * 10**3), at(20, 50.0 * 20), 3) == pytest.approx(5.0)


def test_both_roads() -> None:
    parameters = {"task": "recall", "size": [3, 2, 2], "attention": "order 3, R = 0.5", "batch": 4, "points": 30}
    results = [learning_polynomial.both(**parameters, steps=4, seed=seed) for seed in (1, 2)]
    for result in results:
        assert result["exact_loss"] != result["polynomial_loss"]
        assert result["exact_loss"][0] == pytest.approx(result["polynomial_loss"][0], abs=1e-3)
        assert 0 < result["logits_differ"] < 0.05
    found = [Found(parameters, seed, result) for seed, result in zip((1, 2), results, strict=True)]
    claim = OURS["does-it-learn/through-the-polynomial"]
    assert claim.check(found).verdict is HOLDS
    assert claim.check(changed(found, given(), alike=0.98)).verdict is FAILS
    assert claim.check(changed(found, given(), polynomial_loss=[1.0, 1.0, 5.0])).verdict is FAILS
