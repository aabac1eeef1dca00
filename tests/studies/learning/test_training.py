"""Training runs: deterministic seeds, equal inputs for all attentions, evaluation on held-out data, and learning."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn.functional import cross_entropy

from separatrix.errors import ArgumentError
from separatrix.studies.learning.mechanisms import mechanism
from separatrix.studies.learning.models import Sizes
from separatrix.studies.learning.tasks.recall import Recall
from separatrix.studies.learning.tasks.task import Task, TaskBatch
from separatrix.studies.learning.tasks.text import text_task
from separatrix.studies.learning.training import Run, fresh, held_out, judged, train

TASK = Recall(3, 2, 2).task
SHORT = Run(mechanism("order 3"), 4, (0, 3, 4), Sizes(8, 2, 40), batch=8, points=50)


def test_records_have_the_requested_steps() -> None:
    records = list(train(TASK, SHORT))
    assert [record.step for record in records] == [0, 3, 4]
    assert all(0 <= record.accuracy <= 1 < 10 * record.loss for record in records)


def test_the_seed_decides_and_the_global_generator_is_not_used() -> None:
    state = torch.get_rng_state()
    first, again, other = (list(train(TASK, dataclasses.replace(SHORT, seed=seed))) for seed in (1, 1, 2))
    assert first == again
    assert first[-1] != other[-1]
    assert torch.equal(torch.get_rng_state(), state)


def test_attentions_see_the_same_inputs() -> None:
    seen: dict[str, list[torch.Tensor]] = {"order 2": [], "order 3, R = 1": []}
    for name, inputs in seen.items():

        def draw(count: int, generator: torch.Generator, into: list[torch.Tensor] = inputs) -> TaskBatch:
            batch = TASK.training(count, generator)
            into.append(batch.tokens)
            return batch

        noted = dataclasses.replace(TASK, training=draw, held_out=draw)
        list(train(noted, dataclasses.replace(SHORT, kind=mechanism(name))))
    first, two = seen.values()
    assert len(first) == 5
    assert all(torch.equal(a, b) for a, b in zip(first, two, strict=True))
    assert len({tuple(x.flatten().tolist()) for x in first}) == 5


def test_held_out_data_are_judged() -> None:
    """The result does not depend on how the run is split."""
    task = text_task(6)
    run = dataclasses.replace(SHORT, kind=mechanism("order 2"), points=21)
    model, points = fresh(task, run), held_out(task, run)
    with torch.no_grad():
        logits = model(points.tokens).double()
    loss = float(cross_entropy(logits.flatten(0, 1), points.answers.flatten()))
    accuracy = float((logits.argmax(-1) == points.answers).double().mean())
    for chunk in (4, 21, 100):
        assert judged(model, points, chunk) == pytest.approx((accuracy, loss), rel=1e-6)
    assert next(train(task, run)).loss == pytest.approx(loss, rel=1e-6)


def test_a_model_that_is_given_is_trained_in_place() -> None:
    model = fresh(TASK, SHORT)
    before = model.embedding.detach().clone()
    records = list(train(TASK, SHORT, model))
    assert not torch.equal(model.embedding, before)
    assert records == list(train(TASK, SHORT))
    assert judged(model, held_out(TASK, SHORT), 50)[0] == records[-1].accuracy


@pytest.mark.parametrize("name", ["linear elu", "order 2", "order 3, R = 4"])
def test_copying_the_last_token_is_learned(name: str) -> None:
    """With fixed seeds, a model that ignores its input would stay at the chance level, 1/5."""

    def draw(count: int, generator: torch.Generator) -> TaskBatch:
        tokens = torch.randint(5, (count, 4, 1), generator=generator)
        return TaskBatch(tokens, tokens[:, -1:, 0])

    task = Task(4, 5, 5, 1, draw, draw)
    run = Run(mechanism(name), 60, (0, 60), Sizes(8, 2, 40), batch=16, lr=1e-2, points=200)
    first, last = train(task, run)
    assert first.accuracy < 0.6
    assert last.accuracy > 0.95


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": -1}, "steps: expected an integer >= 0"),
        ({"batch": 0}, "batch: expected an integer >= 1"),
        ({"points": True}, "points: expected an integer >= 1"),
        ({"lr": 0.0}, "lr: expected a finite number > 0"),
        ({"lr": float("nan")}, "lr: expected a finite number > 0"),
        ({"judged_at": ()}, "judged_at: expected steps from 0 to 4"),
        ({"judged_at": (0, 5)}, "judged_at: expected steps from 0 to 4"),
    ],
)
def test_bad_runs(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        dataclasses.replace(SHORT, **changes)
