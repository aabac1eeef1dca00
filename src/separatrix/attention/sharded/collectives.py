"""Collective operations between the ranks of a process group: all are counted, and all have a timeout.

Each exchange writes into a tensor that the caller has allocated, so that only the transport can fail here. If it fails
or exceeds the timeout, `GroupState` determines which ranks are absent, and the group can no longer be used:

A rank writes its barrier (call, pass and index) into the group's store before it waits there. When a collective fails
or times out, every rank that is still running writes that it gave up. Only a rank that neither gave up nor has passed
the barrier is reported as absent. A rank that waits for a stopped rank gives up when its own timeout expires, possibly
later than the other ranks, which wait for it before they report a rank as absent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from separatrix.checks import is_number
from separatrix.errors import ArgumentError, SeparatrixError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store


POLL_SECONDS = 0.02
LONGEST_TEXT = 16384
"""The largest number of bytes that a rank can send at a barrier."""


class AbsentRankError(SeparatrixError):
    """A rank of the process group did not arrive within the timeout. Every later call in this group raises the error
    too."""


@dataclass(frozen=True)
class Barrier:
    """A barrier of all ranks: the number of the call in this group, the pass, and the index of the barrier in the
    pass."""

    call: int
    backward: bool
    index: int

    def __str__(self) -> str:
        """
        >>> str(Barrier(3, backward=True, index=1))
        'barrier 1 in the backward pass of call 3'
        """
        return f"barrier {self.index} in the {'backward' if self.backward else 'forward'} pass of call {self.call}"


@dataclass(frozen=True)
class RankStatus:
    """The last report of a rank in the store: its number of barriers, the last barrier, and whether it timed out.

    All ranks of a group reach the same number of barriers, even if their calls differ.
    """

    barriers: int = 0
    place: str = ""
    gave_up: bool = False

    def __str__(self) -> str:
        return f"last seen at {self.place}" if self.barriers else "never seen"


@dataclass(frozen=True)
class BarrierBuffers:
    """The buffers of a barrier: the numbers and the text that this rank sends, and those of all ranks.

    The buffers are allocated once per group: a rank that is out of memory must be able to report it.
    """

    mine: Tensor
    all: Tensor
    text: Tensor
    texts: Tensor


@dataclass
class GroupState:
    """The state of a process in a group: its store, its buffers, the number of its calls, and its last barrier.

    Attributes:
        devices: The device types that the group's backend can send tensors from.
    """

    store: Store
    rank: int
    count: int
    devices: tuple[str, ...]
    buffers: BarrierBuffers
    call: int = 0
    given_up: str | None = None
    _status: RankStatus = RankStatus()
    _since: float = 0.0

    def begin(self) -> int:
        """Return the number of a new call; raise an error if a rank was absent before."""
        if self.given_up is not None:
            raise AbsentRankError(f"This process group can no longer be used: {self.given_up}")
        self.call += 1
        return self.call

    def arrive(self, place: Barrier) -> None:
        """Write into the store that this rank has reached a barrier."""
        self._status, self._since = RankStatus(self._status.barriers + 1, str(place)), time.monotonic()
        try:
            self._write(self._status)
        except Exception as error:
            raise self._unreachable(error) from error

    def absence_error(self, error: Exception, timeout: timedelta, *, passed: bool) -> AbsentRankError:
        """The error that names the absent ranks, after a collective failed: at a barrier or, if `passed`, after it.

        Ranks must arrive before the timeout expires. The running ranks then give up one after another, each when its
        own timeout expires: this rank waits until at most one other rank is pending, and at most for another timeout.
        """
        here, now = self._status.place, time.monotonic()
        pending: dict[int, RankStatus] = {}
        try:
            pending = self._pending()
            self._write(replace(self._status, gave_up=True))
            while pending and time.monotonic() < now + timeout.total_seconds():
                if len(pending) == 1 and time.monotonic() >= self._since + timeout.total_seconds():
                    break
                time.sleep(POLL_SECONDS)
                pending = self._pending()
        except Exception as unreachable:
            if not pending:
                return self._unreachable(unreachable)
        if not pending:
            return self._give_up(f"all ranks reached {here}, but an exchange failed: {error}")
        absent = ", ".join(f"rank {rank} ({status})" for rank, status in pending.items())
        arrived = passed or all(status.barriers == self._status.barriers for status in pending.values())
        seconds = f"{time.monotonic() - self._since:.3g} s"
        return self._give_up(f"{absent} did not {'pass' if arrived else 'reach'} {here} within {seconds}.")

    def _pending(self) -> dict[int, RankStatus]:
        """The last status of the other ranks that have neither passed this rank's barrier nor given up.

        A rank that has passed a barrier has sent everything that the other ranks need at this barrier.
        """
        statuses = {rank: self._read(rank) for rank in range(self.count) if rank != self.rank}
        return {
            rank: status
            for rank, status in statuses.items()
            if not status.gave_up and status.barriers <= self._status.barriers
        }

    def _write(self, status: RankStatus) -> None:
        self.store.set(self._key(self.rank), json.dumps(astuple(status)))

    def _read(self, rank: int) -> RankStatus:
        key = self._key(rank)
        return RankStatus(*json.loads(self.store.get(key))) if self.store.check([key]) else RankStatus()

    def _unreachable(self, error: Exception) -> AbsentRankError:
        return self._give_up(
            "the store of the process group, which usually runs on rank 0, does not respond at "
            f"{self._status.place}: {error}"
        )

    def _give_up(self, why: str) -> AbsentRankError:
        self.given_up = why
        return AbsentRankError(f"{why[0].upper()}{why[1:]} End the ranks and start them again.")

    def _key(self, rank: int) -> str:
        return f"separatrix/rank-{rank}"


_states: WeakKeyDictionary[dist.ProcessGroup, GroupState] = WeakKeyDictionary()


def group_state(group: dist.ProcessGroup) -> GroupState:
    """The state of this process in a group. The calls of each group are numbered from 1."""
    state = _states.get(group)
    if state is None:
        rank, count = group.rank(), group.size()
        # As in "cpu:gloo,cuda:nccl".
        devices = tuple(pair.partition(":")[0] for pair in dist.get_backend_config(group).split(","))
        state = _states[group] = GroupState(
            group.get_group_store(), rank, count, devices, _barrier_buffers(count, devices)
        )
    return state


def _barrier_buffers(count: int, devices: tuple[str, ...]) -> BarrierBuffers:
    """Allocate the buffers of a group, on the CPU unless the group's backend cannot send from the CPU.

    The first call may run under `torch.inference_mode`: later calls could not write to tensors created in that mode.
    """
    cpu = "cpu" in devices
    device = torch.device("cpu") if cpu else torch.device(devices[0], torch.accelerator.current_device_index())
    with torch.inference_mode(False):
        numbers = torch.zeros(count + 1, 5, dtype=torch.int64, device=device)
        texts = torch.zeros(count + 1, LONGEST_TEXT, dtype=torch.uint8, device=device)
        return BarrierBuffers(numbers[0], numbers[1:], texts[0], texts[1:])


@dataclass
class Sent:
    """The bytes that this rank has sent in each kind of message, and the number of messages of each kind.

    The kinds are "agreement", "all_reduce", "all_gather", "reduce_scatter" and "send". The size of each tensor is
    counted once; how often the backend then sends it depends only on the number of ranks.
    """

    bytes: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


_counting: list[Sent] = []
"""Not a context variable: the backward pass of a device runs in a separate thread."""


@contextmanager
def counted_communication() -> Iterator[Sent]:
    """Count what sharded attention sends, forward and backward, in this process until the end of the block.

    >>> with counted_communication() as sent:
    ...     pass  # sharded_attention(...), loss.backward()
    >>> sent.total, sent.calls
    (0, {})
    """
    sent = Sent()
    _counting.append(sent)
    try:
        yield sent
    finally:
        _counting[:] = [other for other in _counting if other is not sent]


def _count(kind: str, x: Tensor) -> None:
    for sent in _counting:
        sent.bytes[kind] = sent.bytes.get(kind, 0) + x.nbytes
        sent.calls[kind] = sent.calls.get(kind, 0) + 1


@dataclass(frozen=True)
class Ranks:
    """The ranks of a process group, for the process at `rank`. Tensors that are empty on all ranks are not sent."""

    group: dist.ProcessGroup
    rank: int
    count: int
    state: GroupState
    timeout: timedelta

    def check(self, name: str, x: Tensor) -> None:
        """Raise an `ArgumentError` for a tensor that the backend cannot send: some backends would ignore it or hang."""
        devices = self.state.devices
        if x.device.type not in devices:
            wanted = f"a tensor on {' or '.join(devices)}, which the group's backend can send"
            raise ArgumentError(name, expected=wanted, got=f"one on {x.device}")

    def sum(self, x: Tensor) -> None:
        """Replace x by its sum over all ranks, on every rank; x is contiguous."""
        if x.numel():
            _count("all_reduce", x)
            self._wait(lambda: [dist.all_reduce(x, group=self.group, async_op=True)])

    def gather(self, x: Tensor, into: Tensor, kind: str = "all_gather") -> None:
        """All-gather x, of the same shape on every rank, into the rows of `into`, (ranks, *x.shape)."""
        if x.numel():
            _count(kind, x)
            self._wait(lambda: [dist.all_gather(list(into), x, group=self.group, async_op=True)])

    def scatter_sum(self, x: Tensor, into: Tensor) -> None:
        """Reduce-scatter: write row `rank` of the sum of x, (ranks, ...), over all ranks into `into`."""
        if x.numel():
            _count("reduce_scatter", x)
            self._wait(lambda: [dist.reduce_scatter(into, list(x), group=self.group, async_op=True)])

    def pass_on(self, x: Tensor, into: Tensor, tag: int = 0) -> Callable[[], None]:
        """Start to send x to the next rank of the ring and to receive `into` from the previous rank.

        Call the returned function to wait for both. `tag` distinguishes concurrent exchanges. Empty tensors are not
        sent.
        """
        if self.count == 1:
            into.copy_(x)
            return lambda: None
        to, of = (self.rank + 1) % self.count, (self.rank - 1) % self.count
        operations = []
        if x.numel():
            _count("send", x)
            operations.append(dist.P2POp(dist.isend, x, group=self.group, tag=tag, group_peer=to))
        if into.numel():
            operations.append(dist.P2POp(dist.irecv, into, group=self.group, tag=tag, group_peer=of))
        if not operations:
            return lambda: None
        try:
            under_way = dist.batch_isend_irecv(operations)
        except Exception as error:
            raise self.state.absence_error(error, self.timeout, passed=True) from error
        return lambda: self._wait(lambda: under_way)

    def _wait(self, launch: Callable[[], Sequence[dist.Work | None]], *, passed: bool = True) -> None:
        try:
            for work in launch():
                assert work is not None
                work.wait(self.timeout)
        except Exception as error:
            raise self.state.absence_error(error, self.timeout, passed=passed) from error

    def barrier(self, x: Tensor, into: Tensor) -> None:
        """All-gather at a barrier. A rank that does not reach the barrier within the timeout is absent."""
        _count("agreement", x)
        self._wait(lambda: [dist.all_gather(list(into), x, group=self.group, async_op=True)], passed=False)


def ranks_of(group: dist.ProcessGroup | None, timeout: float | None) -> Ranks:
    """The ranks of a group, None for the default group; an error if there is no group or this process is not in it.

    An invalid timeout counts as None here: `check_timeout` raises the error later, on all ranks together.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise ArgumentError(
            "group",
            expected="an initialised process group (torch.distributed.init_process_group)",
            got="none in this process",
        )
    rank = dist.get_rank(group)
    if rank < 0:
        raise ArgumentError("group", expected="a group that contains this process", got="another group")
    whole = dist.group.WORLD if group is None else group
    assert whole is not None
    state = group_state(whole)
    patience: timedelta = state.store.timeout  # type: ignore[attr-defined]  # torch's stubs leave it out
    if timeout is not None and _is_timeout(timeout):
        patience = timedelta(seconds=timeout)
    return Ranks(whole, rank, state.count, state, patience)


def _is_timeout(timeout: object) -> bool:
    return is_number(timeout) and 0 < timeout <= 1e6


def check_timeout(timeout: object) -> None:
    """Raise an `ArgumentError` if the timeout is not a number of seconds."""
    if timeout is not None and not _is_timeout(timeout):
        raise ArgumentError("timeout", expected="seconds in (0, 1e6], or None", got=repr(timeout))
