"""The training loop: Adam's updates written out, records at the requested steps, and runs that end early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.errors import SeparatrixError
from separatrix.training import advance, every, generator_for, train

LR, STEPS = 0.03, 7


def model() -> torch.nn.Linear:
    linear = torch.nn.utils.skip_init(torch.nn.Linear, 3, 2)
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.normal_(generator=generator_for(5, 0))
    return linear


def batch(data: torch.Generator) -> Tensor:
    return torch.randn(4, 3, generator=data)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("falls", [False, True])
def test_updates_are_those_of_adam_written_out(fused: bool, falls: bool) -> None:
    """Parameters have the same bits after every update, and one batch is drawn for each update."""
    plain, data = model(), generator_for(5, 1)
    adam = torch.optim.Adam(plain.parameters(), lr=LR, fused=fused)
    wanted = [plain.weight.tolist()]
    for step in range(STEPS):
        adam.param_groups[0]["lr"] = LR / (1 + step) if falls else LR
        adam.zero_grad()
        plain(batch(data)).square().mean().backward()
        adam.step()
        wanted.append(plain.weight.tolist())
    net, fresh = model(), generator_for(5, 1)
    history = train(
        net.parameters(),
        lambda: batch(fresh),
        lambda x: net(x).square().mean(),
        lambda step: net.weight.tolist(),
        steps=STEPS,
        recorded=range(STEPS + 1),
        lr=(lambda step: LR / (1 + step)) if falls else LR,
        fused=fused,
    )
    assert list(history) == wanted
    assert torch.equal(fresh.get_state(), data.get_state())


def test_nothing_is_computed_for_records_that_are_not_requested() -> None:
    net, drawn = model(), []

    def draw() -> Tensor:
        drawn.append(1)
        return batch(generator_for(5, 1))

    records = train(
        net.parameters(), draw, lambda x: net(x).sum(), lambda step: step, steps=STEPS, recorded=(2, 5), lr=LR
    )
    assert drawn == []
    assert next(records) == 2
    assert len(drawn) == 2
    assert list(records) == [5]
    assert len(drawn) == STEPS


def test_a_run_is_resumed_where_it_stopped() -> None:
    updates = []
    records = advance(updates.append, lambda step: [step, -step], start=2, steps=5, recorded={1, 2, 4, 5})
    assert list(records) == [2, -2, 4, -4, 5, -5]
    assert updates == [2, 3, 4]


def test_zero_steps_do_not_change_the_model() -> None:
    net = model()
    before = net.weight.tolist()
    records = train(net.parameters(), lambda: batch(generator_for(5, 1)), net, str, steps=0, recorded={0}, lr=LR)
    assert list(records) == ["0"]
    assert net.weight.tolist() == before


def ending(error: Exception, *, drawing: bool, **more: Any) -> Iterator[str]:
    """A training run in which the fourth batch (if `drawing`) or its loss raises `error`."""
    net, data, calls = model(), generator_for(5, 1), []

    def draw() -> Tensor:
        calls.append(1)
        if drawing and len(calls) == 4:
            raise error
        return batch(data)

    def loss(x: Tensor) -> Tensor:
        if not drawing and len(calls) == 4:
            raise error
        return net(x).square().mean()

    return train(net.parameters(), draw, loss, str, steps=STEPS, recorded={0, 3, 6}, lr=LR, **more)


def told(step: int, why: SeparatrixError) -> str:
    return f"{step}: {why}"


def test_a_loss_that_refuses_ends_the_run() -> None:
    refusal = SeparatrixError("it diverged.")
    assert list(ending(refusal, drawing=False, stopped=told)) == ["0", "3", "3: it diverged."]
    with pytest.raises(SeparatrixError, match=r"^it diverged\.$"):
        list(ending(refusal, drawing=False))


@pytest.mark.parametrize(("error", "drawing"), [(SeparatrixError("no batch."), True), (ZeroDivisionError(), False)])
def test_other_errors_pass(error: Exception, drawing: bool) -> None:
    records = ending(error, drawing=drawing, stopped=told)
    assert [next(records), next(records)] == ["0", "3"]
    with pytest.raises(type(error)):
        next(records)


@pytest.mark.parametrize(("count", "steps", "wanted"), [(4, 8, {0, 4, 8}), (4, 9, {0, 4, 8, 9}), (5, 0, {0})])
def test_every(count: int, steps: int, wanted: set[int]) -> None:
    assert every(count, steps) == wanted


def test_generators_are_those_of_the_recorded_runs_and_differ() -> None:
    """Pinned values: stored results were drawn from them."""
    seeds = {(seed, purpose): generator_for(seed, purpose).initial_seed() for seed in range(3) for purpose in range(3)}
    assert seeds[0, 0] == PINNED
    assert len(set(seeds.values())) == len(seeds)


PINNED = 7896617691693857887
