"""Training on planted matches: equal parameters, equal inputs, deterministic seeds, and the learned accuracy."""

from __future__ import annotations

import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.hardness import match_training
from separatrix.hardness.match_training import MatchModel, MatchTraining, train_match


def short(**changes: object) -> MatchTraining:
    settings = {"order": 3, "task": 3, "n": 6, "modulus": 7, "steps": 4, "evaluate_every": 2, "batch": 16}
    return MatchTraining(**{**settings, "evaluation_points": 200, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("width", "heads", "hidden"), [(16, 1, 64), (6, 3, 20), (5, 1, 33)])
def test_orders_have_equally_many_parameters(width: int, heads: int, hidden: int) -> None:
    counts = {
        sum(
            parameter.numel()
            for parameter in MatchModel(
                short(order=order, width=width, heads=heads, hidden=hidden), torch.Generator().manual_seed(0)
            ).parameters()
        )
        for order in (2, 3, 4)
    }
    assert len(counts) == 1


def test_records() -> None:
    records = list(train_match(short(steps=5)))
    assert [record.step for record in records] == [0, 2, 4, 5]
    assert len({record.parameters for record in records}) == 1
    assert all(0 <= record.accuracy <= 1 and record.loss > 0 for record in records)


def test_the_seed_decides_and_the_global_generator_is_not_used() -> None:
    state = torch.get_rng_state()
    first, again, other = (list(train_match(short(seed=seed))) for seed in (1, 1, 2))
    assert first == again
    assert first[-1] != other[-1]
    assert torch.equal(torch.get_rng_state(), state)


def test_both_orders_see_the_same_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, list[torch.Tensor]] = {2: [], 3: []}
    drawn = match_training.planted_instances
    for order, inputs in seen.items():

        def noted(*sizes: int, generator: torch.Generator, into: list[torch.Tensor] = inputs) -> object:
            x, label = drawn(*sizes, generator=generator)
            into.append(x)
            return x, label

        monkeypatch.setattr(match_training, "planted_instances", noted)
        list(train_match(short(order=order)))
    assert len(seen[2]) == 5
    assert all(torch.equal(a, b) for a, b in zip(seen[2], seen[3], strict=True))
    assert not torch.equal(seen[2][1], seen[2][2])


def test_the_model_reads_a_set() -> None:
    """The label depends on position 0 and the multiset of the others."""
    run = short()
    model = MatchModel(run, torch.Generator().manual_seed(0))
    x = torch.tensor([[1, 2, 3, 4, 5, 6], [1, 6, 4, 2, 5, 3], [2, 1, 3, 4, 5, 6]])
    with torch.no_grad():
        logit = model(x)
    assert torch.allclose(logit[0], logit[1], atol=1e-6)
    assert abs(float(logit[0] - logit[2])) > 1e-4


def test_pairs_are_learned_by_order_two() -> None:
    """With fixed seeds, a broken model would have an accuracy near one half after 150 steps."""
    records = list(train_match(MatchTraining(2, 2, 6, 7, steps=150, evaluate_every=150, batch=64)))
    assert abs(records[0].accuracy - 0.5) < 0.1
    assert records[-1].accuracy > 0.95


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": 1}, "order: expected an integer >= 2"),
        ({"task": 4}, "task: expected an integer from 2 to 3"),
        ({"lr": 0.0}, "lr: expected a positive finite number"),
        ({"lr": float("nan")}, "lr: expected a positive finite number"),
        ({"order": 7, "hidden": 64}, "hidden: expected at least 65 at order 7, got 64"),
        ({"steps": -1}, "steps: expected an integer >= 0"),
    ],
)
def test_bad_settings(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        short(**changes)
