"""Where each rank of a process group is: which of its calls, in which pass, at which meeting; and who is absent.

A rank writes its place into the group's store before it waits for the others there. When an exchange fails or takes too
long, every rank that is still running writes that too. The ranks that did not come to the place, or do not write that
they are running, are named as absent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
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
"""The bytes that a rank can send at a meeting."""


class AbsentRankError(SeparatrixError):
    """A rank of the process group did not come in time: the group is given up, and refuses every further call."""


@dataclass(frozen=True)
class Place:
    """A meeting of the ranks: the number of the call in this group, the pass, and the meetings of the pass before."""

    call: int
    backward: bool
    meeting: int

    def __str__(self) -> str:
        """
        >>> str(Place(3, backward=True, meeting=1))
        'meeting 1 in the backward pass of call 3'
        """
        return f"meeting {self.meeting} in the {'backward' if self.backward else 'forward'} pass of call {self.call}"


@dataclass(frozen=True)
class Board:
    """The tensors of a meeting: what this rank says and what all say, in numbers and as a text.

    They are made once for a group: a rank whose memory is full must be able to report it.
    """

    mine: Tensor
    all: Tensor
    text: Tensor
    texts: Tensor


@dataclass
class Standing:
    """What a process knows of its own way through the calls of one group, and what all of its meetings need.

    Attributes:
        devices: The kinds of device that the group's backend can send from.
    """

    store: Store
    rank: int
    count: int
    devices: tuple[str, ...]
    board: Board
    call: int = 0
    given_up: str | None = None
    _said: str = ""
    _since: float = 0.0

    def begin(self) -> int:
        """The number of a new call; an error if a rank was found to be absent before."""
        if self.given_up is not None:
            raise AbsentRankError(f"This process group was given up before: {self.given_up}")
        self.call += 1
        return self.call

    def come(self, place: Place) -> None:
        """Write down that this rank has come to a place, and waits there for the others."""
        self._said, self._since = str(place), time.monotonic()
        try:
            self.store.set(self._key(self.rank), self._said)
        except Exception as error:
            raise self._unreachable(error) from error

    def lost(self, error: Exception, timeout: timedelta, *, met: bool) -> AbsentRankError:
        """Which ranks are absent, after an exchange failed: at a meeting, or, if `met`, after all had come to it.

        A rank that fails at once, because a connection broke, gives the slower ones the rest of the time-out to come.
        """
        lost = f"{self._said}, which it gave up"
        deadline = self._since + timeout.total_seconds()
        try:
            self.store.set(self._key(self.rank), lost)
            while True:
                said = [self._last(rank) for rank in range(self.count)]
                if time.monotonic() >= deadline or all(one == lost for one in said):
                    break
                time.sleep(POLL_SECONDS)
        except Exception as unreachable:
            return self._unreachable(unreachable)
        there = (lost,) if met else (lost, self._said)
        absent = [
            f"rank {rank} ({f'last seen at {one}' if one else 'never seen'})"
            for rank, one in enumerate(said)
            if one not in there
        ]
        seconds = f"{time.monotonic() - self._since:.3g} s"
        if absent:
            return self._give_up(
                f"{', '.join(absent)} did not {'go on from' if met else 'come to'} {self._said} within {seconds}."
            )
        return self._give_up(f"all ranks came to {self._said}, but an exchange failed: {error}")

    def _last(self, rank: int) -> str:
        key = self._key(rank)
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def _unreachable(self, error: Exception) -> AbsentRankError:
        return self._give_up(
            f"the store of the process group, which rank 0 keeps as a rule, does not answer at {self._said}: {error}"
        )

    def _give_up(self, why: str) -> AbsentRankError:
        self.given_up = why
        return AbsentRankError(f"{why[0].upper()}{why[1:]} End the ranks and start them again.")

    def _key(self, rank: int) -> str:
        return f"separatrix/rank-{rank}"


_standings: WeakKeyDictionary[dist.ProcessGroup, Standing] = WeakKeyDictionary()


def standing_in(group: dist.ProcessGroup) -> Standing:
    """The standing of this process in a group; calls are counted for each group from 1."""
    found = _standings.get(group)
    if found is None:
        rank, count = group.rank(), group.size()
        # As in "cpu:gloo,cuda:nccl".
        devices = tuple(pair.partition(":")[0] for pair in dist.get_backend_config(group).split(","))
        found = _standings[group] = Standing(group.get_group_store(), rank, count, devices, _board(count, devices))
    return found


def _board(count: int, devices: tuple[str, ...]) -> Board:
    """On the CPU, unless the group's backend cannot send from it."""
    cpu = "cpu" in devices
    device = torch.device("cpu") if cpu else torch.device(devices[0], torch.accelerator.current_device_index())
    numbers = torch.zeros(count + 1, 5, dtype=torch.int64, device=device)
    texts = torch.zeros(count + 1, LONGEST_TEXT, dtype=torch.uint8, device=device)
    return Board(numbers[0], numbers[1:], texts[0], texts[1:])
