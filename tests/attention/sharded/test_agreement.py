"""Ranks that fail, skip a call or a backward pass, hang or die: every rank raises an error that names the rank.

A group of three ranks is started once: every rank runs all cases and saves the messages it gets, and the parent process
compares them. After each case that leaves the group usable, a correct call must give the numbers of one process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import separatrix as sx
from separatrix.attention.sharded import (
    AbsentRankError,
    agreement,
    collectives,
    sharded_attention,
    sharded_exact_attention,
)
from separatrix.attention.sharded import exact as parallel_exact
from separatrix.attention.sharded import near_linear as parallel
from separatrix.attention.sharded.collectives import Barrier, BarrierBuffers, GroupState, Ranks
from separatrix.attention.streaming import state
from separatrix.attention.streaming.state import TensorAttentionState
from tests.ranks import start_ranks

COUNT, TOKENS = 3, 4
KINDS = [(exact, is_causal) for exact in (False, True) for is_causal in (False, True)]
PATIENCE = 15.0
"""The seconds that ranks wait for an absent rank."""
NOTHING = "nothing was raised"


def tokens() -> list[torch.Tensor]:
    """Query, two key sets and two value sets of the whole sequence."""
    draws = torch.rand(5, COUNT * TOKENS, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return list(2 * draws - 1)


def attended(exact: bool, is_causal: bool, tensors: list[torch.Tensor], **options: Any) -> torch.Tensor:
    query, key1, key2, value1, value2 = tensors
    arguments: tuple[Any, ...] = (query, [key1, key2], [value1, value2])
    if exact:
        return sharded_exact_attention(*arguments, is_causal=is_causal, **options)
    return sharded_attention(*arguments, bound=1.0, tolerance=1e-6, is_causal=is_causal, **options)


def forward_and_backward(exact: bool, is_causal: bool, rank: int, **options: Any) -> list[torch.Tensor]:
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS].clone().requires_grad_() for x in tokens()]
    out = attended(exact, is_causal, tensors, **options)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), tensors)]


def expected(is_causal: bool) -> list[torch.Tensor]:
    whole = [x.requires_grad_() for x in tokens()]
    out = sx.tensor_attention(whole[0], whole[1:3], whole[3:], is_causal=is_causal)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), whole)]


def is_right(exact: bool, is_causal: bool, rank: int, **options: Any) -> bool:
    """Whether a valid call gives this rank's rows of the result of one process."""
    found = forward_and_backward(exact, is_causal, rank, **options)
    mine = [x[rank * TOKENS : (rank + 1) * TOKENS] for x in expected(is_causal)]
    return all(torch.allclose(a, b, atol=1e-4, rtol=0) for a, b in zip(found, mine, strict=True))


def told(act: Callable[[], object]) -> str:
    try:
        act()
    except sx.SeparatrixError as error:
        return f"{type(error).__name__}: {error}"
    return NOTHING


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def failing_at(number: int) -> Iterator[None]:
    """The `number`-th local computation of a rank runs out of memory."""
    attempted, counted = agreement._attempted, [0]

    def attempt(work: Callable[[], Any]) -> Any:
        def fails() -> Any:
            raise MemoryError(f"at work {number}")

        counted[0] += 1
        return attempted(fails if counted[0] == number else work)

    with replaced(agreement, "_attempted", attempt):
        yield


def every_failure(rank: int, exact: bool, is_causal: bool) -> list[str]:
    """The errors of this rank if rank 1 fails at its first local computation, its second, and so on until the last."""
    heard: list[str] = []
    while not heard or heard[-1] != NOTHING:
        with failing_at(len(heard) + 1 if rank == 1 else 0):
            heard.append(told(lambda: forward_and_backward(exact, is_causal, rank)))
        assert is_right(exact, is_causal, rank), f"after {heard}"
    return heard


def spoilt_call(name: str, exact: bool, rank: int) -> None:
    """One rank calls with an argument that cannot be sent, or that makes the checks fail."""
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS] for x in tokens()]
    options: dict[str, Any] = {}
    module = parallel_exact if exact else parallel
    if name == "sparse" and rank == 1:
        tensors[1] = tensors[1].to_sparse()
    if name == "meta" and rank == 2:
        tensors = [x.to("meta") for x in tensors]
    if name == "timeout" and rank == 0:
        options["timeout"] = -1.0
    if name == "not a tensor" and rank == 2:
        tensors[0] = None  # type: ignore[call-overload]
    if name == "out of memory" and rank == 1:

        def full(*_: object) -> None:
            raise torch.OutOfMemoryError("tried to allocate 1 EiB")

        with replaced(module, "check_shard", full):
            attended(exact, False, tensors)
    else:
        attended(exact, False, tensors, **options)


SPOILT = {
    "sparse": "ArgumentError: keys[0] on rank 1: expected a dense tensor, got layout torch.sparse_coo.",
    "meta": "ArgumentError: query on rank 2: expected a tensor on cpu or cuda, which the group's backend can send"
    ", got one on meta.",
    "timeout": "ArgumentError: timeout on rank 0: expected seconds in (0, 1e6], or None, got -1.0.",
    "not a tensor": "ArgumentError: query on rank 2: expected a tensor, got NoneType.",
    "out of memory": "SeparatrixError: On rank 1: OutOfMemoryError: tried to allocate 1 EiB",
}


def beyond_range(rank: int) -> None:
    """Rank 1 has queries whose scores overflow every dtype."""
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS] for x in tokens()]
    attended(True, False, [tensors[0] * (1e300 if rank == 1 else 1.0), *tensors[1:]], scale=1.0)


def many_roundings(rank: int) -> None:
    """Rank 1 has summed its tokens in so many pieces that the error bound exceeds every tolerance."""
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS] for x in tokens()]
    pieces = property(lambda state: ((1 << 40) if rank == 1 else 10,) * 2)
    with replaced(TensorAttentionState, "roundings", pieces):
        attended(False, False, tensors)


def skipped_backward(rank: int) -> str:
    """Rank 1 skips its backward pass, and makes another call."""
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS].clone().requires_grad_() for x in tokens()]
    out = attended(False, False, tensors)
    return told(lambda: attended(False, False, tensors) if rank == 1 else out.sum().backward())


def skipped_call(rank: int) -> str:
    """Rank 1 is interrupted in a call and makes its next call, while the other ranks still wait in the first."""
    if rank == 1:

        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with replaced(parallel, "check_call", interrupted), pytest.raises(KeyboardInterrupt):
            forward_and_backward(False, False, rank)
    return told(lambda: forward_and_backward(False, False, rank))


def other_plan(rank: int) -> None:
    """Rank 1 plans for a tolerance that is a thousand times smaller than the one it was given."""
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS] for x in tokens()]
    plan_bounded = state.plan_bounded

    def plan(order: int, d: int, radius: float, tolerance: float, dtype: torch.dtype) -> state.BoundedPlan:
        planned = plan_bounded(order, d, radius, tolerance / (1000 if rank == 1 else 1), dtype)
        return replace(planned, tolerance=tolerance)

    with replaced(state, "plan_bounded", plan):
        attended(False, False, tensors)


def other_version(exact: bool, rank: int) -> None:
    """Rank 2 runs another version of the library, whose reports have a field that this version does not know."""
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS] for x in tokens()]
    with (
        replaced(agreement, "__version__", "9.9" if rank == 2 else agreement.__version__),
        replaced(agreement, "astuple", lambda report: (report.configuration, *([] if rank == 2 else [1, 2, 3, 4]))),
    ):
        attended(exact, False, tensors)


def inference_then_training(exact: bool, rank: int) -> bool:
    """Whether a group whose first call is made under `torch.inference_mode` can train afterwards."""
    group = dist.new_group(list(range(COUNT)))
    tensors = [x[rank * TOKENS : (rank + 1) * TOKENS] for x in tokens()]
    with torch.inference_mode():
        attended(exact, False, tensors, group=group)
    return is_right(exact, False, rank, group=group)


def stopped(rank: int, folder: Path) -> str:
    """Rank 2 is stopped in the exchange after a barrier, and continued when the others are done."""
    group = dist.new_group(list(range(COUNT)))
    forward_and_backward(False, False, rank, group=group)
    done = [folder / f"{other}.saw-a-stopped-rank" for other in (0, 1)]
    if rank == 2:
        (folder / "pid").write_text(str(os.getpid()))

        def stop(*_: object) -> None:
            os.kill(os.getpid(), signal.SIGSTOP)
            raise RuntimeError("was stopped")

        with replaced(Ranks, "sum", stop), pytest.raises(RuntimeError, match="was stopped"):
            forward_and_backward(False, False, rank, group=group)
        return ""
    heard = told(lambda: forward_and_backward(False, False, rank, group=group, timeout=PATIENCE))
    done[rank].touch()
    while not done[1 - rank].exists():
        time.sleep(0.05)
    if rank == 0:
        os.kill(int((folder / "pid").read_text()), signal.SIGCONT)
    return heard


def absent(rank: int, group: dist.ProcessGroup, folder: Path) -> list[str]:
    """Rank 2 does not call, and continues when the others have timed out."""
    done = [folder / f"{other}.gave-up" for other in (0, 1)]
    if rank == 2:
        while not all(one.exists() for one in done):
            time.sleep(0.05)
        return []
    heard = [told(lambda: forward_and_backward(True, False, rank, group=group, timeout=PATIENCE)) for _ in range(2)]
    done[rank].touch()
    return heard


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    rendezvous = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=COUNT, timeout=timedelta(hours=1))
    other = dist.new_group(list(range(COUNT)))
    assert other is not None
    heard: dict[str, Any] = {
        f"every failure, {exact}, {is_causal}": every_failure(rank, exact, is_causal) for exact, is_causal in KINDS
    }
    for name in SPOILT:
        for exact in (False, True):
            heard[f"{name}, {exact}"] = told(lambda name=name, exact=exact: spoilt_call(name, exact, rank))
    heard["out of range"] = told(lambda: beyond_range(rank))
    heard["many roundings"] = told(lambda: many_roundings(rank))
    heard["other plan"] = told(lambda: other_plan(rank))
    heard["other version"] = [told(lambda exact=exact: other_version(exact, rank)) for exact in (False, True)]
    heard["inference, then training"] = [inference_then_training(exact, rank) for exact in (False, True)]
    heard["skipped backward"] = skipped_backward(rank)
    heard["skipped call"] = skipped_call(rank)
    heard["right"] = [is_right(exact, is_causal, rank) for exact, is_causal in KINDS]
    forward_and_backward(True, False, rank, group=other)
    heard["absent"] = absent(rank, other, Path(folder))
    heard["stopped"] = stopped(rank, Path(folder))
    Path(folder, f"{rank}.json").write_text(json.dumps(heard))
    dist.barrier()
    if rank == 2:
        os._exit(0)  # like a killed process
    heard["died"] = told(lambda: forward_and_backward(False, True, rank, timeout=PATIENCE))
    Path(folder, f"{rank}.json").write_text(json.dumps(heard))
    os._exit(0)  # without its third rank the group cannot shut down


@pytest.mark.timeout(2400)
def test_ranks_stay_in_step(tmp_path: Path, subtests: pytest.Subtests) -> None:
    start_ranks(work, str(tmp_path), count=COUNT)
    heard = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(COUNT)]
    for exact, is_causal in KINDS:
        with subtests.test("every failure", exact=exact, is_causal=is_causal):
            *failures, last = heard[1][f"every failure, {exact}, {is_causal}"]
            assert failures == [
                f"SeparatrixError: On rank 1: MemoryError: at work {k + 1}" for k in range(len(failures))
            ]
            assert len(failures) >= (11 if exact else 5), "both passes have work on both sides of their exchanges"
            assert last == NOTHING
            for each in heard:
                assert each[f"every failure, {exact}, {is_causal}"] == [*failures, last]
    for name, sentence in SPOILT.items():
        with subtests.test(name):
            assert {each[f"{name}, {exact}"] for each in heard for exact in (False, True)} == {sentence}
    with subtests.test("out of range"):
        [said] = {each["out of range"] for each in heard}
        assert said.startswith("SeparatrixError: On rank 1: query (up to 2^99")
        assert "the scores are made of products that reach 2^" in said
    with subtests.test("many roundings"):
        [said] = {each["many roundings"] for each in heard}
        assert said.startswith("SeparatrixError: tolerance: for [12, 12] tokens on 3 ranks the error bound ")
    with subtests.test("other plan"):
        [said] = {each["other plan"] for each in heard}
        degrees = r"expected the same on every rank, \d+ as on rank 0, got \d+ on rank 1\."
        assert re.fullmatch(f"ArgumentError: the degree of the plan: {degrees}", said)
    with subtests.test("other version"):
        [said] = {sentence for each in heard for sentence in each["other version"]}
        version = (
            f"ArgumentError: separatrix.__version__: expected the same on every rank, {sx.__version__} as on rank 0"
        )
        assert said == f"{version}, got 9.9 on rank 2."
    with subtests.test("inference, then training"):
        assert [each["inference, then training"] for each in heard] == [[True, True]] * COUNT
    with subtests.test("stopped"):
        for each in heard[:2]:
            assert each["stopped"].startswith("AbsentRankError: Rank 2 (last seen at barrier ")
            assert ") did not pass barrier " in each["stopped"]
            assert "rank 0" not in each["stopped"]
            assert "rank 1" not in each["stopped"]
    with subtests.test("skipped"):
        [backward] = {each["skipped backward"] for each in heard}
        first = "The ranks are out of step: ranks 0 and 2 are at barrier 0 in the backward pass of call "
        assert backward.startswith(f"SeparatrixError: {first}")
        assert "rank 1 is at barrier 0 in the forward pass of call " in backward
        [call] = {each["skipped call"] for each in heard}
        numbers = [int(one) for one in re.findall(r"call (\d+)", call)]
        assert "ranks 0 and 2 are at barrier 0 in the forward pass of call" in call
        assert numbers[1] == numbers[0] + 1
    with subtests.test("and go on"):
        assert [each["right"] for each in heard] == [[True] * len(KINDS)] * COUNT
    with subtests.test("absent"):
        for each in heard[:2]:
            first, second = each["absent"]
            assert first.startswith("AbsentRankError: Rank 2 (last seen at barrier ")
            assert "in the backward pass of call 1) did not reach barrier 0 in the forward pass of call 2" in first
            assert "rank 0" not in first
            assert "rank 1" not in first
            assert second.startswith("AbsentRankError: This process group can no longer be used: rank 2 (last seen")
    with subtests.test("died"):
        for each in heard[:2]:
            assert each["died"].startswith("AbsentRankError: Rank 2 (last seen at")
            assert "rank 0" not in each["died"]
            assert "rank 1" not in each["died"]


def at(store: dist.Store, rank: int) -> GroupState:
    nothing = torch.zeros(0)
    return GroupState(store, rank, 3, ("cpu",), BarrierBuffers(nothing, nothing, nothing, nothing))


def test_the_absent_rank_is_named_after_a_completed_barrier() -> None:
    """Rank 1 reports that it lost the others; rank 2 died before, and reports nothing."""
    store, place = dist.HashStore(), Barrier(4, backward=True, index=2)
    for rank in range(3):
        at(store, rank).arrive(place)
    mine, other = at(store, 0), at(store, 1)
    for one in (mine, other):
        one.arrive(place)
    broken = RuntimeError("connection reset")
    assert "rank 2 (last seen at" in str(other.absence_error(broken, timedelta(0), passed=True))
    said = str(mine.absence_error(broken, timedelta(0), passed=True))
    assert said.startswith(
        "Rank 2 (last seen at barrier 2 in the backward pass of call 4) did not pass barrier 2 in the backward "
        "pass of call 4 within"
    )
    with pytest.raises(AbsentRankError, match="can no longer be used: rank 2"):
        mine.begin()


class Clock:
    """A clock that advances only in sleeps; scheduled events happen at their times."""

    def __init__(self, events: dict[float, Callable[[], object]]) -> None:
        self.now, self.events = 0.0, events

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due in [when for when in self.events if when <= self.now]:
            self.events.pop(due)()


@pytest.mark.parametrize("met", [False, True])
def test_a_rank_that_gives_up_later_is_not_blamed_for_one_that_stopped(
    met: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 2 stops at a barrier where rank 0 has waited for ten seconds, and rank 1, which was slower, for four."""
    store, place = dist.HashStore(), Barrier(4, backward=True, index=2)
    ranks, patience = [at(store, rank) for rank in range(3)], timedelta(seconds=10)
    said: list[str] = []
    clock = Clock({16.0: lambda: said.append(str(ranks[1].absence_error(RuntimeError(), patience, passed=met)))})
    monkeypatch.setattr(collectives, "time", clock)
    for rank, arrival in ((0, 0.0), (2, 0.0), (1, 6.0)):
        clock.now = arrival
        ranks[rank].arrive(place)
    clock.now = 10.0
    said.append(str(ranks[0].absence_error(RuntimeError(), patience, passed=met)))
    assert len(said) == 2
    for sentence in said:
        assert sentence.startswith(f"Rank 2 (last seen at {place}) did not pass {place} within 1")
        assert "rank 0" not in sentence
        assert "rank 1" not in sentence


def test_a_rank_that_has_passed_the_place_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 passed a barrier and waits at the next one; rank 0 has not heard from rank 2, which stopped."""
    store, clock = dist.HashStore(), Clock({})
    monkeypatch.setattr(collectives, "time", clock)
    ranks = [at(store, rank) for rank in range(3)]
    for rank in ranks:
        rank.arrive(Barrier(1, backward=False, index=0))
    ranks[1].arrive(Barrier(1, backward=False, index=1))
    clock.now = 10.0
    said = str(ranks[0].absence_error(RuntimeError(), timedelta(seconds=10), passed=False))
    assert said.startswith("Rank 2 (last seen at barrier 0 in the forward pass of call 1) did not pass barrier 0")
    said = str(ranks[1].absence_error(RuntimeError(), timedelta(seconds=10), passed=False))
    assert said.startswith("Rank 2 (last seen at barrier 0 in the forward pass of call 1) did not reach barrier 1")


def test_a_store_that_ends_with_rank_0_hides_no_verdict() -> None:
    """Rank 0, which hosts the store, named the absent rank and exited before the others could read the store again."""

    class Ends(dist.HashStore):  # type: ignore[misc]
        def set(self, key: str, value: str) -> None:
            if value.endswith("true]"):
                raise RuntimeError("Broken pipe")
            super().set(key, value)

    store = Ends()
    ranks = [at(store, rank) for rank in range(3)]
    for rank in ranks[:2]:
        rank.arrive(Barrier(1, backward=False, index=0))
    dist.HashStore.set(store, "separatrix/rank-0", '[1, "", true]')
    said = str(ranks[1].absence_error(RuntimeError(), timedelta(0), passed=False))
    assert said.startswith("Rank 2 (never seen) did not reach barrier 0 in the forward pass of call 1 within")


def test_all_ranks_are_present_and_the_transport_fails() -> None:
    store, place = dist.HashStore(), Barrier(1, backward=False, index=0)
    ranks = [at(store, rank) for rank in range(3)]
    for one in ranks:
        one.arrive(place)
    said = [str(one.absence_error(RuntimeError("no route"), timedelta(0), passed=False)) for one in ranks]
    assert said[2].startswith("All ranks reached barrier 0 in the forward pass of call 1, but an exchange failed: no ")


def test_a_rank_that_never_reported_and_a_closed_store(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = at(dist.HashStore(), 0)
    mine.arrive(Barrier(1, backward=False, index=0))
    assert (
        "rank 1 (never seen), rank 2 (never seen) did not reach"
        in str(mine.absence_error(RuntimeError(), timedelta(0), passed=False)).lower()
    )

    class Gone:
        def set(self, *_: object) -> None:
            raise RuntimeError("Broken pipe")

    mine = at(Gone(), 0)  # type: ignore[arg-type]
    with pytest.raises(
        AbsentRankError, match=r"The store of the process group, which usually runs on rank 0.* Broken pipe"
    ):
        mine.arrive(Barrier(1, backward=False, index=0))


def test_calls_are_counted_per_group() -> None:
    def number() -> int:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            group = dist.group.WORLD
            assert group is not None
            return [collectives.group_state(group).begin() for _ in range(2)][-1]
        finally:
            dist.destroy_process_group()

    assert [number(), number()] == [2, 2]
