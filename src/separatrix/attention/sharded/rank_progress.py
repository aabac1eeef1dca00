"""Where each rank of a process group is: which of its calls, in which pass, at which meeting; and who is absent.

A rank writes its place into the group's store before it waits for the others there. When an exchange fails or takes too
long, every rank that is still running writes that it gave up. Only a rank that neither gave up nor has passed the place
is named as absent. A rank that waits for a stopped one gives up when its own time-out has passed, which may be later
than on the other ranks: they wait for that before they name anybody.
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
"""The bytes that a rank can send at a meeting."""


class AbsentRankError(SeparatrixError):
    """A rank of the process group did not come in time: the group is given up, and refuses every further call."""


@dataclass(frozen=True)
class Meeting:
    """A meeting of the ranks: the number of the call in this group, the pass, and the meetings of the pass before."""

    call: int
    backward: bool
    meeting: int

    def __str__(self) -> str:
        """
        >>> str(Meeting(3, backward=True, meeting=1))
        'meeting 1 in the backward pass of call 3'
        """
        return f"meeting {self.meeting} in the {'backward' if self.backward else 'forward'} pass of call {self.call}"


@dataclass(frozen=True)
class Sighting:
    """What a rank has last written into the store: its place, how many meetings it has come to, whether it gave up.

    All ranks of a group come to the same number of meetings, also where their calls are out of step.
    """

    meetings: int = 0
    place: str = ""
    gave_up: bool = False

    def __str__(self) -> str:
        return f"last seen at {self.place}" if self.meetings else "never seen"


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
class GroupState:
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
    _sighting: Sighting = Sighting()
    _since: float = 0.0

    def begin(self) -> int:
        """The number of a new call; an error if a rank was found to be absent before."""
        if self.given_up is not None:
            raise AbsentRankError(f"This process group was given up before: {self.given_up}")
        self.call += 1
        return self.call

    def come(self, place: Meeting) -> None:
        """Write down that this rank has come to a place, and waits there for the others."""
        self._sighting, self._since = Sighting(self._sighting.meetings + 1, str(place)), time.monotonic()
        try:
            self._write(self._sighting)
        except Exception as error:
            raise self._unreachable(error) from error

    def lost(self, error: Exception, timeout: timedelta, *, met: bool) -> AbsentRankError:
        """Which ranks are absent, after an exchange failed: at a meeting, or, if `met`, after all had come to it.

        Ranks have the rest of the time-out to come here. Those that are running then give up one after another, each
        when its own time-out has passed: this rank waits until no more than one of the others is silent, and at most
        for another time-out.
        """
        here, now = self._sighting.place, time.monotonic()
        silent: dict[int, Sighting] = {}
        try:
            silent = self._silent()
            self._write(replace(self._sighting, gave_up=True))
            while silent and time.monotonic() < now + timeout.total_seconds():
                if len(silent) == 1 and time.monotonic() >= self._since + timeout.total_seconds():
                    break
                time.sleep(POLL_SECONDS)
                silent = self._silent()
        except Exception as unreachable:
            if not silent:
                return self._unreachable(unreachable)
        if not silent:
            return self._give_up(f"all ranks came to {here}, but an exchange failed: {error}")
        absent = ", ".join(f"rank {rank} ({sighting})" for rank, sighting in silent.items())
        arrived = met or all(sighting.meetings == self._sighting.meetings for sighting in silent.values())
        seconds = f"{time.monotonic() - self._since:.3g} s"
        return self._give_up(f"{absent} did not {'go on from' if arrived else 'come to'} {here} within {seconds}.")

    def _silent(self) -> dict[int, Sighting]:
        """The other ranks that have neither passed this rank's place nor given up, and where they were last seen.

        A rank that has passed a place has sent all that the others need there.
        """
        sightings = {rank: self._read(rank) for rank in range(self.count) if rank != self.rank}
        return {
            rank: sighting
            for rank, sighting in sightings.items()
            if not sighting.gave_up and sighting.meetings <= self._sighting.meetings
        }

    def _write(self, sighting: Sighting) -> None:
        self.store.set(self._key(self.rank), json.dumps(astuple(sighting)))

    def _read(self, rank: int) -> Sighting:
        key = self._key(rank)
        return Sighting(*json.loads(self.store.get(key))) if self.store.check([key]) else Sighting()

    def _unreachable(self, error: Exception) -> AbsentRankError:
        return self._give_up(
            "the store of the process group, which rank 0 keeps as a rule, does not answer at "
            f"{self._sighting.place}: {error}"
        )

    def _give_up(self, why: str) -> AbsentRankError:
        self.given_up = why
        return AbsentRankError(f"{why[0].upper()}{why[1:]} End the ranks and start them again.")

    def _key(self, rank: int) -> str:
        return f"separatrix/rank-{rank}"


_states: WeakKeyDictionary[dist.ProcessGroup, GroupState] = WeakKeyDictionary()


def group_state(group: dist.ProcessGroup) -> GroupState:
    """The state of this process in a group; calls are counted for each group from 1."""
    state = _states.get(group)
    if state is None:
        rank, count = group.rank(), group.size()
        # As in "cpu:gloo,cuda:nccl".
        devices = tuple(pair.partition(":")[0] for pair in dist.get_backend_config(group).split(","))
        state = _states[group] = GroupState(group.get_group_store(), rank, count, devices, _board(count, devices))
    return state


def _board(count: int, devices: tuple[str, ...]) -> Board:
    """The board of a group, on the CPU unless the group's backend cannot send from it.

    The first call may run under `torch.inference_mode`, whose tensors no later call outside of it could write to.
    """
    cpu = "cpu" in devices
    device = torch.device("cpu") if cpu else torch.device(devices[0], torch.accelerator.current_device_index())
    with torch.inference_mode(False):
        numbers = torch.zeros(count + 1, 5, dtype=torch.int64, device=device)
        texts = torch.zeros(count + 1, LONGEST_TEXT, dtype=torch.uint8, device=device)
        return Board(numbers[0], numbers[1:], texts[0], texts[1:])
