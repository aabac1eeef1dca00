"""Training learners: the same data for all, correct records, and runs that stop with an error message."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.selection import learner_training
from separatrix.selection.learner_training import ENCODINGS, LearnerSettings, train_learner
from separatrix.training import train

SMALL = LearnerSettings(
    T=8, q=2, d=3, width=16, attention="softmax W", encoding="fixed", steps=120, lr=0.03, record_every=60, lengths=(12,)
)


def changed(**to: object) -> LearnerSettings:
    return dataclasses.replace(SMALL, **to)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_trains_and_is_judged_at_every_length(encoding: str) -> None:
    rotary = {"attention": "softmax QK"} if encoding == "rotary" else {}
    records = list(train_learner(changed(encoding=encoding, width=12 if encoding == "one-hot" else 16, **rotary)))
    assert [record.step for record in records] == [0, 60, 120]
    assert all(list(record.losses) == [8, 12] for record in records)
    assert records[-1].losses[8] < 0.9 * records[0].losses[8]
    assert all(0 < record.errors[8] < record.losses[8] for record in records)


def test_a_seed_is_a_run_and_the_global_generator_stays() -> None:
    before = torch.get_rng_state()
    first, two, other = (list(train_learner(changed(seed=seed)))[-1] for seed in (1, 1, 2))
    assert first == two
    assert first != other
    assert torch.equal(before, torch.get_rng_state())


def test_runs_of_one_seed_see_the_same_tokens_and_subsets() -> None:
    def batches(**to: object) -> list[torch.Tensor]:
        settings = changed(**to)
        stream = learner_training._batches(settings, learner_training._table(settings))
        return [part for _ in range(40) for part in next(stream)[:2]]

    first = batches()
    for other in (batches(attention="relu"), batches(encoding="stochastic"), batches(encoding="sinusoidal")):
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert not torch.equal(first[0], batches(seed=1)[0])
    assert not torch.equal(first[0], first[2])


def test_fresh_encodings_are_fresh_at_every_step_and_valid() -> None:
    settings = changed(encoding="stochastic")
    stream = learner_training._batches(settings, None)
    first, second = next(stream), next(stream)
    assert not torch.equal(first.E, second.E)
    gram = first.E @ first.E.mT - torch.eye(8)
    assert float(gram.abs().max()) <= settings.threshold
    code = (first.E[first.y] * first.g.unsqueeze(2)).sum(1)
    torch.testing.assert_close((code @ first.E.mT).gather(1, first.y), torch.ones(32, 2), rtol=0, atol=1e-5)


def test_only_the_rows_that_were_trained_on_are_learned() -> None:
    """Beyond T a learned table keeps its initial values, and a fixed table never changes."""
    settings = changed(encoding="learned", steps=20)
    model = learner_training._Model(settings)
    start = model.table.detach().clone()
    stream = learner_training._batches(settings, model.table)
    run = train(
        model.parameters(),
        lambda: next(stream),
        lambda inputs: learner_training._batch_loss(model, inputs, settings),
        str,
        steps=20,
        recorded=[20],
        lr=0.05,
    )
    assert list(run) == ["20"]
    moved = (model.table - start).abs().amax(1)
    assert bool((moved[:8] > 0).all())
    assert bool((moved[8:] == 0).all())
    assert all("table" not in name for name, _ in learner_training._Model(SMALL).named_parameters())


def test_the_identity_map_stops_with_a_sentence() -> None:
    from_zero = list(train_learner(changed(attention="identity", initial="zero")))
    assert len(from_zero) == 1
    assert "normaliser" in from_zero[0].stopped
    assert from_zero[0].step == 0
    *_, last = train_learner(changed(attention="identity", steps=400, seed=3))
    assert last.stopped.startswith(f"Stopped at step {last.step}:")
    assert last.step < 400
    assert last.losses == {}


def test_a_run_that_explodes_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_training, "EXPLOSION", 1e-9)
    records = list(train_learner(SMALL))
    assert [record.step for record in records] == [0, 0]
    assert "times that of answering zero" in records[-1].stopped


def test_the_loss_is_equation_3_on_the_points() -> None:
    """From zero initialization the output is 0 and the loss is d/(2q), within six standard deviations."""
    record = next(train_learner(changed(initial="zero", evaluation_points=20_000)))
    assert abs(record.losses[8] - 3 / 4) < 6 * record.errors[8]
    # The variance of |average|^2/2 is d/(2 q^2).
    assert record.errors[8] == pytest.approx((3 / 8 / 20_000) ** 0.5, rel=0.1)


@pytest.mark.parametrize(
    "change",
    [
        {"attention": "sine"},
        {"encoding": "sine"},
        {"initial": "ones"},
        {"encoding": "rotary"},
        {"encoding": "one-hot"},
        {"threshold": 0.01},
        {"q": 9},
        {"lengths": (1,)},
        {"lr": 0.0},
        {"steps": -1},
        {"evaluation_points": 8},
    ],
)
def test_bad_settings_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        changed(**change)
