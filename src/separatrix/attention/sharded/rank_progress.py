"""The progress of each rank of a process group (call, pass and barrier), from which absent ranks are determined.

A rank writes its barrier into the group's store before it waits there. When a collective fails or times out, every rank
that is still running writes that it gave up. Only a rank that neither gave up nor has passed the barrier is reported as
absent. A rank that waits for a stopped rank gives up when its own timeout expires, possibly later than the other ranks,
which wait for it before they report a rank as absent.
"""

from __future__ import annotations

import json
import time
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from separatrix.errors import SeparatrixError

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

    They are allocated once per group: a rank that is out of memory must be able to report it.
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

        A rank that has passed a barrier has sent everything that the others need there.
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
