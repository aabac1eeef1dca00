"""Which layer of order 3 trains best on planted triples, on recall and on text.

The layers are those of `layer_settings`, which compares them on joins. The tasks, the sizes of the models, the steps
and the batches are those of the tables of evidence (`match`, `recall`, `text`). Each layer has the better of the
learning rates 0.005 and 0.01 on each task: with seed 0, the larger accuracy on held-out inputs, or the smaller loss on
text; the smaller rate if they are equal.

The following was expected, and written down with the rules before any of these runs; the results on joins, where no
difference was significant, had been seen. The expectations are those of `layer_settings`: the scale 1/sqrt(d) is
better than 1/d; norms of queries and keys, norms of the outputs of heads, both and a learned scale are better than
none; LayerNorm after attention is worse than none.

The rule of each claim: it holds if the lead is significantly above zero (95%, paired by seed, equal steps, seeds 1 to
5) on at least one task and significantly below zero on none, fails if it is significantly below zero on a task, and is
undecided otherwise.

The rule of the recommendation in the guide: a setting is recommended if its claim holds; if several hold, the setting
with the largest mean lead in accuracy on triples and recall. If none holds, the recommendation of `layer_settings`
stays. The scale 1/sqrt(d) is recommended unless its claim fails, and LayerNorm after attention only if its claim fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.studies.learning.layer_settings import INVERSE, PLAIN, QK, SETTINGS, TRIED
from separatrix.studies.learning.mechanisms import LAYERS
from separatrix.studies.learning.runs import (
    RECORDED_TEXT,
    TURNED,
    Expectation,
    ahead_by,
    at,
    by_attention,
    measured,
    task_of,
)
from separatrix.studies.learning.tasks.text import digest, text_task
from separatrix.studies.seeds import interval

SettingTask = Literal["match", "recall", "text"]
TASKS: dict[SettingTask, dict[str, Any]] = {
    "match": {"size": [8, 11], "steps": 800, "batch": 32, "points": 1024},
    "recall": {"size": [3, 2, 2], "steps": 600, "batch": 64, "points": 1024},
    "text": {"size": [32], "steps": 200, "batch": 8, "points": 256},
}
"""The tasks of the tables of evidence, with their sizes and runs."""
NAMES: dict[SettingTask, str] = {"match": "triples", "recall": "recall", "text": "text"}
SEEDS = (1, 2, 3, 4, 5)
RATES: dict[SettingTask, dict[str, float]] = {
    "match": dict.fromkeys(LAYERS, 0.005),
    "recall": {**dict.fromkeys(LAYERS, 0.005), PLAIN: 0.01, INVERSE: 0.01, QK: 0.01},
    "text": dict.fromkeys(LAYERS, 0.01),
}
"""The learning rate of each layer on each task, as chosen by the runs with seed 0."""


@experiment(version=1, name="beyond.layer_settings")
def trained_setting(
    task: SettingTask,
    text: str | None,
    size: list[int],
    attention: str,
    steps: int,
    compute_steps: int,
    batch: int,
    points: int,
    lr: float,
    seed: int,
) -> dict[str, Any]:
    """One run of a layer on a task; `text` is the SHA-256 of the text, None for inputs that are drawn."""
    chosen = text_task(*size, text=text) if task == "text" else task_of(task, size)
    return measured(chosen, attention, steps, compute_steps, batch, points, seed, lr=lr)


def _cells(seeds: Sequence[int], rates: Mapping[SettingTask, Mapping[str, Sequence[float]]]) -> Iterator[Cell]:
    for task, options in TASKS.items():
        for name in LAYERS:
            for lr in rates[task][name]:
                for seed in seeds:
                    text = digest() if task == "text" else None
                    how = {**options, "compute_steps": options["steps"], "attention": name, "lr": lr}
                    yield trained_setting.cell(seed=seed, task=task, text=text, **how)


def runs_on(task: SettingTask, results: Sequence[CellResult]) -> list[CellResult]:
    """The runs on a task."""
    return [run for run in results if run.parameters["task"] == task]


def measure_of(task: SettingTask) -> Literal["accuracy", "loss"]:
    """The measure by which layers are compared on a task."""
    return "loss" if task == "text" else "accuracy"


def _comparable(results: Sequence[CellResult]) -> bool:
    return all(run.parameters["text"] in (None, RECORDED_TEXT) for run in results)


def best_rates(task: SettingTask, results: Sequence[CellResult]) -> dict[str, float]:
    """The learning rate of each layer on a task by the rule: accuracy, or loss on text, then the smaller rate."""
    what = measure_of(task)

    def rank(run: CellResult) -> tuple[float, float]:
        end = run.result[what][-1]
        return (end if what == "loss" else -end), run.parameters["lr"]

    return {name: min(runs, key=rank).parameters["lr"] for name, runs in by_attention(results).items()}


@claim(
    where="Layer settings",
    part="learning rates, other tasks",
    says="On planted triples, recall and text, with seed 0, the learning rates of this study are the better of 0.005 "
    "and 0.01 for each layer.",
    profile="full",
    cells=lambda: _cells([0], {task: dict.fromkeys(LAYERS, TRIED) for task in TASKS}),
    figures=("layer_rates",),
    neighbours=(Neighbour("the other rate is better for every layer", {"other": True}),),
)
def setting_rates(results: Sequence[CellResult], other: bool = False) -> Finding:
    """The claim holds if the rule chooses these rates."""
    numbers: dict[str, Any] = {}
    agree = True
    for task, rates in RATES.items():
        runs, what = runs_on(task, results), measure_of(task)
        for name, some in by_attention(runs).items():
            numbers[f"{NAMES[task]}: {what} with seed 0, {name}"] = ", ".join(
                f"{run.result[what][-1]:.3f} with {run.parameters['lr']:g}" for run in some
            )
        expected = {name: min(set(TRIED) - {rate}) if other else rate for name, rate in rates.items()}
        agree &= best_rates(task, runs) == expected
    return Finding(Verdict.HOLDS if agree else Verdict.FAILS_AS_PRINTED, numbers, comparable=_comparable(results))


def _judged(results: Sequence[CellResult], better: str, worse: str, by: float) -> Finding:
    """The finding on one lead for each task: at least one is significantly above `by`, and none is significantly
    below."""
    numbers: dict[str, Any] = {}
    judged = []
    for task, name in NAMES.items():
        ours, what = by_attention(runs_on(task, results)), measure_of(task)
        judged.append(Expectation(better, worse).lead(ours, what))
        numbers[f"{name}: {better} ahead of {worse}: {what}"] = judged[-1]
        for layer, runs in ours.items():
            numbers[f"{name}: {what}, {layer}"] = interval([at(run, "steps", what) for run in runs])
        parameters = [run.result["parameters"] for run in runs_on(task, results)]
        numbers[f"{name}: parameters, least and most"] = f"{min(parameters):,} and {max(parameters):,}"
        if max(parameters) > 1.01 * min(parameters):
            return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    if any(lead.high < by for lead in judged):
        return Finding(Verdict.FAILS_AS_PRINTED, numbers, comparable=_comparable(results))
    decided = any(lead.low > by for lead in judged)
    return Finding(Verdict.HOLDS if decided else Verdict.UNDECIDED, numbers, comparable=_comparable(results))


def _setting(part: str, says: str, better: str, worse: str) -> Claim:
    return claim(
        where="Layer settings",
        part=f"{part}, other tasks",
        says=f"Trained on planted triples, on recall and on text, a layer of order 3 {says} on at least one of these "
        "tasks, and worse on none.",
        profile="full",
        cells=lambda: _cells(
            SEEDS, {task: {name: [rate] for name, rate in rates.items()} for task, rates in RATES.items()}
        ),
        figures=("layer_leads",),
        neighbours=(TURNED, ahead_by(0.5)),
    )(
        lambda results, turned=False, by=0.0: (
            _judged(results, worse, better, by) if turned else _judged(results, better, worse, by)
        )
    )


task_scale, task_qk, task_heads, task_both, task_learned, task_after = (_setting(*setting) for setting in SETTINGS)
