"""Runs of small models that differ only in their attention: the cells, and comparisons of two attentions over seeds.

Every attention is trained for `steps` steps on the same inputs, with the same number of parameters, and then until its
counted flops equal those of order 3 in `steps` steps: that is step `compute_steps`. At `steps`, models are compared at
equal parameters and inputs; at `compute_steps`, at equal parameters and compute.

Bounded models are trained with exact softmax of their bounded scores, which the polynomial method approximates: at
these lengths exact attention is faster. `polynomial` trains by the polynomial method.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from separatrix.claims.ledger import CellResult, Finding, Interval, Neighbour, Verdict
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.studies.learning.compute import step_flops
from separatrix.studies.learning.mechanisms import KNOWN, MECHANISMS, SEPARATE, mechanism
from separatrix.studies.learning.models import Sizes
from separatrix.studies.learning.tasks.match import match_task
from separatrix.studies.learning.tasks.recall import Recall
from separatrix.studies.learning.tasks.task import Task
from separatrix.studies.learning.tasks.text import digest, text_task
from separatrix.studies.learning.training import Run, fresh, held_out, judged, train
from separatrix.studies.seeds import interval, paired

TaskName = Literal["match", "recall"]
Reading = Literal["steps", "compute_steps"]
READINGS: dict[Reading, str] = {"steps": "equal steps", "compute_steps": "equal compute"}
SIZES = Sizes(width=16, heads=4, hidden=64)
LR = 5e-3
RECORDED_TEXT = "55f2a26a44b7cc28aee45af941a72cfa4caa9f0379cca6a2e9cafd658a09116c"
"""The SHA-256 of the text of the recorded verdicts, which is that of Python 3.11.7."""


def task_of(name: TaskName, size: Sequence[int]) -> Task:
    """The task that has this name; `size` is n and M of a match, or order, parts and shared of a recall."""
    return match_task(*size) if name == "match" else Recall(*size).task


@experiment(version=1, name="beyond.learning")
def learned(
    task: TaskName, size: list[int], attention: str, steps: int, compute_steps: int, batch: int, points: int, seed: int
) -> dict[str, Any]:
    """One run on a task whose inputs are drawn, evaluated eight times up to `steps`, and at `compute_steps`."""
    return measured(task_of(task, size), attention, steps, compute_steps, batch, points, seed)


@experiment(version=1, name="beyond.learning_text")
def learned_text(
    text: str, size: list[int], attention: str, steps: int, compute_steps: int, batch: int, points: int, seed: int
) -> dict[str, Any]:
    """One run on the text with this SHA-256, evaluated as `learned` is; `size` is the number of characters of a
    window.
    """
    asked = text_task(*size, text=text)
    run = measured(asked, attention, steps, compute_steps, batch, points, seed)
    return {**run, "python": platform.python_version()}


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
    further_tasks: Sequence[Task] = (),
) -> dict[str, Any]:
    """One run on a task, evaluated eight times up to `steps`, and at `compute_steps`: its records in columns.

    Args:
        asked: The task.
        attention: The name of the attention.
        steps: The number of updates, the same for every attention.
        compute_steps: The number of updates of this attention at equal flops.
        batch: The inputs of a batch.
        points: The number of held-out inputs.
        seed: The seed of the data and of the initial weights.
        sizes: The sizes of the model.
        lr: The learning rate.
        further_tasks: Further tasks on whose held-out inputs the final model is evaluated.
    """
    kind = mechanism(attention)
    last = max(steps, compute_steps)
    judged_at = {step * steps // 8 for step in range(9)} | {compute_steps, last}
    run = Run(kind, last, tuple(judged_at), sizes, batch, lr, points, seed=seed)
    model = fresh(asked, run)
    records = list(train(asked, run, model))
    elsewhere = [judged(model, held_out(other, run), batch)[0] for other in further_tasks]
    return {
        "step": [record.step for record in records],
        "accuracy": [record.accuracy for record in records],
        "loss": [record.loss for record in records],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "step_flops": step_flops(asked, sizes, kind, batch),
        **({"elsewhere": elsewhere} if further_tasks else {}),
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
    """The cells of some attentions on one task; each attention may use as many flops as order 3 in `steps` steps."""
    chosen = text_task(*size) if task == "text" else task_of(task, size)
    spent = steps * step_flops(chosen, SIZES, mechanism("order 3"), batch)
    for attention in attentions:
        affords = int(spent / step_flops(chosen, SIZES, mechanism(attention), batch) * (1 + 2.0**-40))
        how = {"attention": attention, "steps": steps, "compute_steps": affords, "batch": batch, "points": points}
        for seed in seeds:
            if task == "text":
                yield learned_text.cell(seed=seed, text=digest(), size=size, **how)
            else:
                yield learned.cell(seed=seed, task=task, size=size, **how)


def by_attention(cells: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """The runs of each attention, seeds ascending, in the order of `KNOWN`."""
    ours: dict[str, list[CellResult]] = {}
    for name in KNOWN:
        some = sorted((cell for cell in cells if cell.parameters["attention"] == name), key=lambda cell: cell.seed)
        if some:
            ours[name] = some
    return ours


def at(cell: CellResult, reading: Reading, what: Literal["accuracy", "loss"]) -> float:
    """A run's accuracy or loss, read at equal steps or at equal compute."""
    return float(cell.result[what][cell.result["step"].index(cell.parameters[reading])])


@dataclass(frozen=True)
class Expectation:
    """The expectation that one attention is better than another, compared seed by seed at one point of training."""

    better: str
    worse: str
    reading: Reading = "steps"

    def lead(self, ours: dict[str, list[CellResult]], what: Literal["accuracy", "loss"]) -> Interval:
        """The lead of the attention expected to be better, in accuracy or in loss; positive means as expected."""
        first, second = ([at(cell, self.reading, what) for cell in ours[name]] for name in (self.better, self.worse))
        return paired(first, second) if what == "accuracy" else paired(second, first)

    def __str__(self) -> str:
        return f"{self.better} ahead of {self.worse} at {READINGS[self.reading]}"


WITH_PRODUCT = ("order 2", "order 3", *SEPARATE)
"""The attentions of the claims on the product of two order-2 attentions."""
AHEAD_OF_PRODUCT = tuple(Expectation("order 3", name, reading) for name in SEPARATE for reading in READINGS)
"""That order 3 is ahead of the product of two order-2 attentions was expected before the product was trained."""

TURNED = Neighbour("the reverse: the attention that is expected to be worse is better", {"turned": True})


def ahead_by(margin: float) -> Neighbour:
    """The neighbour that every lead exceeds a margin, which is false for at least one lead."""
    return Neighbour(f"better by more than {margin:g} in each comparison", {"by": margin})


def finding(
    cells: Sequence[CellResult],
    what: Literal["accuracy", "loss"],
    expectations: Sequence[Expectation],
    note: str = "",
    plain: str = "order 2",
    *,
    turned: bool = False,
    by: float = 0.0,
) -> Finding:
    """The finding about expected leads: it holds if every lead is significantly above `by`, which is zero by default.

    It fails if a lead is significantly below `by`, and is undecided otherwise. Each 95% confidence interval is for one
    lead. The parameters of the models must agree with those of the attention `plain` to one percent. With `turned`, the
    other attention of each pair is expected to be ahead.
    """
    if turned:
        expectations = [
            Expectation(expectation.worse, expectation.better, expectation.reading) for expectation in expectations
        ]
    ours = by_attention(cells)
    numbers: dict[str, float | str | Interval] = {}
    open_ones = against = 0
    for expectation in expectations:
        lead = expectation.lead(ours, what)
        numbers[f"{expectation}: {what}"] = lead
        open_ones += lead.low <= by <= lead.high
        against += lead.high < by
    for reading, words in READINGS.items():
        for name, some in ours.items():
            numbers[f"{what} at {words}, {name}"] = interval([at(cell, reading, what) for cell in some])
    parameters = [cell.result["parameters"] for cell in cells]
    numbers["parameters, least and most"] = f"{min(parameters):,} and {max(parameters):,}"
    numbers[f"flops a step over those of {plain}"] = ", ".join(
        f"{name}: {some[0].result['step_flops'] / ours[plain][0].result['step_flops']:.2f}"
        for name, some in ours.items()
    )
    unequal = any(abs(count / ours[plain][0].result["parameters"] - 1) > 0.01 for count in parameters)
    if unequal or against:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers, note)
    return Finding(Verdict.UNDECIDED if open_ones else Verdict.HOLDS, numbers, note)


def on_text(judged: Finding, cells: Sequence[CellResult]) -> Finding:
    """The finding, extended by the hash of the text of its runs and the versions of Python that contain this text."""
    read = [cell for cell in cells if "text" in cell.parameters]
    (text,) = {str(cell.parameters["text"]) for cell in read}
    pythons = sorted({str(cell.result["python"]) for cell in read})
    named = {"SHA-256 of the text": text, "Python of the text": " and ".join(pythons)}
    note = judged.note if text == RECORDED_TEXT else f"{judged.note} The recorded verdict is of another text.".lstrip()
    return replace(judged, numbers={**judged.numbers, **named}, note=note, comparable=text == RECORDED_TEXT)
