"""Training by the polynomial method: bounded layers whose attention is near-linear in training, within a tolerance.

Models with the same seed, inputs and initial weights are trained with exact softmax of the bounded scores and by the
polynomial method at a tolerance of 0.01; the exactly trained weights are also evaluated by the polynomial method.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import Any

import torch

from separatrix.claims.ledger import CellResult, Finding, Interval, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.studies.learning.compute import TOLERANCE
from separatrix.studies.learning.mechanisms import mechanism
from separatrix.studies.learning.models import Model
from separatrix.studies.learning.runs import LR, SIZES, TaskName, on_text, task_of
from separatrix.studies.learning.tasks.task import Task
from separatrix.studies.learning.tasks.text import digest, text_task
from separatrix.studies.learning.training import Run, fresh, held_out, train
from separatrix.studies.seeds import interval

ALIKE = 0.99
"""The fraction of inputs on which exactly trained weights must give the same answer by the polynomial method."""
NEAR = 0.05
"""The largest allowed mean difference between the two ways of training, in accuracy or in nats."""


@experiment(version=2, name="beyond.learning_polynomial")
def both(
    task: TaskName, size: list[int], attention: str, steps: int, batch: int, points: int, seed: int
) -> dict[str, Any]:
    """One run with exact attention, one by the polynomial method, and the weights of the exact run evaluated by the
    polynomial method."""
    return _compared(task_of(task, size), attention, steps, batch, points, seed)


@experiment(version=2, name="beyond.learning_polynomial_text")
def both_text(
    text: str, size: list[int], attention: str, steps: int, batch: int, points: int, seed: int
) -> dict[str, Any]:
    """The two runs of `both` on the text with this SHA-256; `size` is the number of characters of a window."""
    compared = _compared(text_task(*size, text=text), attention, steps, batch, points, seed)
    return {**compared, "python": platform.python_version()}


def _compared(asked: Task, attention: str, steps: int, batch: int, points: int, seed: int) -> dict[str, Any]:
    kind = mechanism(attention)
    models: list[Model] = []
    records = []
    for tolerance in (None, TOLERANCE):
        run = Run(kind, steps, (0, steps // 2, steps), SIZES, batch, LR, points, tolerance, seed)
        models.append(fresh(asked, run))
        records.append(list(train(asked, run, models[-1])))
    polynomial = fresh(asked, run)
    polynomial.load_state_dict(models[0].state_dict())
    tokens = held_out(asked, run).tokens
    with torch.no_grad():
        exact, near = models[0](tokens), polynomial(tokens)
    return {
        "step": [record.step for record in records[0]],
        "exact": [record.accuracy for record in records[0]],
        "polynomial": [record.accuracy for record in records[1]],
        "exact_loss": [record.loss for record in records[0]],
        "polynomial_loss": [record.loss for record in records[1]],
        "alike": float((exact.argmax(-1) == near.argmax(-1)).double().mean()),
        "logits_differ": float((exact - near).abs().max()),
    }


def _recall_cells(radii: Sequence[float], steps: int, seeds: Sequence[int]) -> Iterator[Cell]:
    for R, seed in product(radii, seeds):
        how = {"attention": f"order 3, R = {R:g}", "steps": steps, "batch": 32, "points": 512}
        yield both.cell(seed=seed, task="recall", size=[3, 2, 2], **how)


def _text_cells(radii: Sequence[float], steps: int, seeds: Sequence[int]) -> Iterator[Cell]:
    for R, seed in product(radii, seeds):
        how = {"attention": f"order 3, R = {R:g}", "steps": steps, "batch": 8, "points": 128}
        yield both_text.cell(seed=seed, text=digest(), size=[16], **how)


def kind_of(cell: CellResult) -> tuple[str, str]:
    """The task and the attention of a run."""
    return cell.parameters.get("task", "text"), cell.parameters["attention"]


_APART = Neighbour("the results of the two trainings differ by more than 0.05", {"together": False})


def _same(near: float) -> Neighbour:
    return Neighbour(f"the two trainings end within {near:g} of each other", {"near": near})


def _judged(cells: Sequence[CellResult], together: bool = True, near: float = NEAR) -> Finding:
    """The claim holds if the answers agree and the two trainings end close to each other.

    At least 0.99 of the answers must be the same, and accuracies and losses at the end within 0.05 in the mean.
    """
    numbers: dict[str, float | str | Interval] = {}
    apart = 0
    for kind in dict.fromkeys(map(kind_of, cells)):
        some = [cell for cell in cells if kind_of(cell) == kind]
        for what in ("", "_loss"):
            difference = interval(
                [cell.result[f"polynomial{what}"][-1] - cell.result[f"exact{what}"][-1] for cell in some]
            )
            numbers[f"{', '.join(kind)}: {what.strip('_') or 'accuracy'}, polynomial minus exact"] = difference
            apart += abs(difference.value) > near
        numbers[f"{', '.join(kind)}: accuracy by the polynomial method"] = interval(
            [cell.result["polynomial"][-1] for cell in some]
        )
    alike = min(cell.result["alike"] for cell in cells)
    numbers["least share of equal answers, exactly trained weights"] = alike
    numbers["largest difference of their logits"] = max(cell.result["logits_differ"] for cell in cells)
    return Finding(Verdict.FAILS_AS_PRINTED if (apart > 0) is together or alike < ALIKE else Verdict.HOLDS, numbers)


_SAYS = (
    "A bounded layer learns as well through the polynomial method, at a relative tolerance of 0.01, as through "
    "exact attention of its scores; and weights that were trained with one of the two can be run with the other."
)

trained_through = claim(
    where="Does it learn",
    part="through the polynomial",
    says=_SAYS,
    cells=lambda: _recall_cells((0.5,), 40, (1, 2)),
    figures=("learning_roads",),
    neighbours=(_APART, _same(1e-7)),
)(_judged)

trained_through_longer = claim(
    where="Does it learn",
    part="through the polynomial, longer",
    says=f"{_SAYS} On recall and on text.",
    profile="full",
    cells=lambda: chain(_recall_cells((0.5, 1.0), 200, (1, 2, 3)), _text_cells((0.5, 1.0), 80, (1, 2, 3))),
    figures=("learning_roads",),
    neighbours=(_APART, _same(1e-3)),
)(lambda cells, together=True, near=NEAR: on_text(_judged(cells, together, near), cells))
