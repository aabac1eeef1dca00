"""Runs of small models that differ in their attention alone: the cells, and what two attentions' seeds say together.

Every attention takes the same steps on the same inputs, `steps`, with equally many parameters. Each is then trained on
until its flops, counted, are those that order 3 has spent by then: `compute_steps`. Read at the former step, models are
compared at equal parameters and inputs; read at the latter, at equal parameters and compute.

Bounded models are trained with exact softmax of their bounded scores, the function that the polynomial method computes
to a tolerance: at these lengths that is faster. `polynomial` trains by the polynomial method.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from separatrix.claims.ledger import Finding, Found, Interval, Neighbour, Verdict
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.studies.learning.compute import step_flops
from separatrix.studies.learning.mechanisms import LAYERED, MECHANISMS, mechanism
from separatrix.studies.learning.models import Sizes
from separatrix.studies.learning.tasks.match import match_task
from separatrix.studies.learning.tasks.recall import Recall
from separatrix.studies.learning.tasks.task import Task
from separatrix.studies.learning.tasks.text import digest, text_task
from separatrix.studies.learning.training import Run, fresh, train
from separatrix.studies.seeds import interval, paired

TaskName = Literal["match", "recall"]
Reading = Literal["steps", "compute_steps"]
READINGS: dict[Reading, str] = {"steps": "equal steps", "compute_steps": "equal compute"}
SIZES = Sizes(width=16, heads=4, hidden=64)
LR = 5e-3
RECORDED_TEXT = "55f2a26a44b7cc28aee45af941a72cfa4caa9f0379cca6a2e9cafd658a09116c"
"""The SHA-256 of the text that the recorded verdicts of claims on text are of: Python 3.11.7 brings it along."""


def task_of(name: TaskName, size: Sequence[int]) -> Task:
    """The task that has this name; `size` is n and M of a match, or order, parts and shared of a recall."""
    return match_task(*size) if name == "match" else Recall(*size).task


@experiment(version=1, name="beyond.learning")
def learned(
    task: TaskName, size: list[int], attention: str, steps: int, compute_steps: int, batch: int, points: int, seed: int
) -> dict[str, Any]:
    """One run on a task whose inputs are drawn, judged eight times on the way to `steps` and at `compute_steps`."""
    return measured(task_of(task, size), attention, steps, compute_steps, batch, points, seed)


@experiment(version=1, name="beyond.learning_text")
def learned_text(
    text: str, size: list[int], attention: str, steps: int, compute_steps: int, batch: int, points: int, seed: int
) -> dict[str, Any]:
    """One run on the text with this SHA-256, judged as `learned` is; `size` is the number of characters of a window."""
    asked = text_task(*size, text=text)
    found = measured(asked, attention, steps, compute_steps, batch, points, seed)
    return {**found, "python": platform.python_version()}


def measured(
    asked: Task,
    attention: str,
    steps: int,
    compute_steps: int,
    batch: int,
    points: int,
    seed: int,
    *,
    sizes: Sizes = SIZES,
    lr: float = LR,
) -> dict[str, Any]:
    """One run on a task, judged eight times on the way to `steps` and at `compute_steps`: its records in columns.

    Args:
        asked: The task.
        attention: The name of the attention.
        steps: The updates that every attention takes.
        compute_steps: The updates that this one takes for as many flops as the others.
        batch: The inputs of a batch.
        points: The number of held-out inputs.
        seed: What the data and the first weights are drawn from.
        sizes: The sizes of the model.
        lr: The learning rate.
    """
    kind = mechanism(attention)
    last = max(steps, compute_steps)
    judged_at = {step * steps // 8 for step in range(9)} | {compute_steps, last}
    run = Run(kind, last, tuple(judged_at), sizes, batch, lr, points, seed=seed)
    model = fresh(asked, run)
    records = list(train(asked, run, model))
    return {
        "step": [record.step for record in records],
        "accuracy": [record.accuracy for record in records],
        "loss": [record.loss for record in records],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "step_flops": step_flops(asked, sizes, kind, batch),
    }


def runs(
    task: TaskName | Literal["text"],
    size: list[int],
    *,
    steps: int,
    batch: int,
    seeds: Sequence[int],
    points: int = 1024,
    attentions: Sequence[str] = tuple(MECHANISMS),
) -> Iterator[Cell]:
    """The cells of some attentions on one task; each may spend the flops that order 3 spends in `steps`."""
    made = text_task(*size) if task == "text" else task_of(task, size)
    spent = steps * step_flops(made, SIZES, mechanism("order 3"), batch)
    for attention in attentions:
        affords = int(spent / step_flops(made, SIZES, mechanism(attention), batch) * (1 + 2.0**-40))
        how = {"attention": attention, "steps": steps, "compute_steps": affords, "batch": batch, "points": points}
        for seed in seeds:
            if task == "text":
                yield learned_text.cell(seed=seed, text=digest(), size=size, **how)
            else:
                yield learned.cell(seed=seed, task=task, size=size, **how)


def by_attention(found: Sequence[Found]) -> dict[str, list[Found]]:
    """The runs of each attention, seeds ascending, in the order of `MECHANISMS` and then `LAYERED`."""
    ours: dict[str, list[Found]] = {}
    for name in (*MECHANISMS, *LAYERED):
        some = sorted((one for one in found if one.parameters["attention"] == name), key=lambda one: one.seed)
        if some:
            ours[name] = some
    return ours


def at(one: Found, reading: Reading, what: Literal["accuracy", "loss"]) -> float:
    """A run's accuracy or loss, read at equal steps or at equal compute."""
    return float(one.result[what][one.result["step"].index(one.parameters[reading])])


@dataclass(frozen=True)
class Expectation:
    """The expectation that one attention is better than another, seed by seed, at one reading."""

    better: str
    worse: str
    reading: Reading = "steps"

    def lead(self, ours: dict[str, list[Found]], what: Literal["accuracy", "loss"]) -> Interval:
        """How far the better one leads in accuracy, or by how much its loss is smaller: above zero is as expected."""
        first, second = ([at(one, self.reading, what) for one in ours[name]] for name in (self.better, self.worse))
        return paired(first, second) if what == "accuracy" else paired(second, first)

    def __str__(self) -> str:
        return f"{self.better} ahead of {self.worse} at {READINGS[self.reading]}"


TURNED = Neighbour("the other way round: the one that is expected to be worse is better", {"turned": True})


def ahead_by(margin: float) -> Neighbour:
    """The neighbour that every lead is larger than a margin, which is more than the runs show of one of them."""
    return Neighbour(f"ahead by more than {margin:g} in each comparison", {"by": margin})


def finding(
    found: Sequence[Found],
    what: Literal["accuracy", "loss"],
    expectations: Sequence[Expectation],
    note: str = "",
    plain: str = "order 2",
    *,
    turned: bool = False,
    by: float = 0.0,
) -> Finding:
    """The finding on some expectations: it holds if every lead is above `by`, which is zero, beyond chance.

    It fails if a lead is below it beyond chance, and is undecided otherwise. The 95% are those of each lead alone.
    Models must have as many parameters as that of the attention `plain`, to one in a hundred. `turned`, the other
    attention of each pair is expected to be ahead.
    """
    if turned:
        expectations = [Expectation(one.worse, one.better, one.reading) for one in expectations]
    ours = by_attention(found)
    numbers: dict[str, float | str | Interval] = {}
    open_ones = against = 0
    for one in expectations:
        lead = one.lead(ours, what)
        numbers[f"{one}: {what}"] = lead
        open_ones += lead.low <= by <= lead.high
        against += lead.high < by
    for reading, words in READINGS.items():
        for name, some in ours.items():
            numbers[f"{what} at {words}, {name}"] = interval([at(one, reading, what) for one in some])
    parameters = [one.result["parameters"] for one in found]
    numbers["parameters, least and most"] = f"{min(parameters):,} and {max(parameters):,}"
    numbers[f"flops a step over those of {plain}"] = ", ".join(
        f"{name}: {some[0].result['step_flops'] / ours[plain][0].result['step_flops']:.2f}"
        for name, some in ours.items()
    )
    unequal = any(abs(count / ours[plain][0].result["parameters"] - 1) > 0.01 for count in parameters)
    if unequal or against:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers, note)
    return Finding(Verdict.UNDECIDED if open_ones else Verdict.HOLDS, numbers, note)


def on_text(made: Finding, found: Sequence[Found]) -> Finding:
    """The finding with the text that its runs have read, and the versions of Python that brought it along."""
    read = [one for one in found if "text" in one.parameters]
    (text,) = {str(one.parameters["text"]) for one in read}
    pythons = sorted({str(one.result["python"]) for one in read})
    named = {"SHA-256 of the text": text, "Python of the text": " and ".join(pythons)}
    note = made.note if text == RECORDED_TEXT else f"{made.note} The recorded verdict is of another text.".lstrip()
    return replace(made, numbers={**made.numbers, **named}, note=note, comparable=text == RECORDED_TEXT)
