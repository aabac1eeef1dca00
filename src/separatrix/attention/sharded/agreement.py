"""The check before each exchange that all ranks of a process group are at the same point, and that none has failed.

If one rank never reaches a collective, the others wait forever; if it reaches the collective in another call, all ranks
get wrong numbers. So the work that a rank does alone ends in a *meeting*: a message of fixed size in which each rank
sends the number of the call, the pass, the number of meetings before, and whether it has failed. If a rank has failed
for any reason, or is at another point, every rank raises the same error, and all can continue together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import TypeVar

import torch

from separatrix import __version__
from separatrix.attention.sharded.collectives import Ranks
from separatrix.attention.sharded.rank_progress import LONGEST_TEXT, Meeting
from separatrix.errors import ArgumentError, SeparatrixError

Made = TypeVar("Made")

_REPORT = 1024
"""Texts are padded to a multiple of so many bytes: the digits of a length do not change what is sent."""


@dataclass(frozen=True)
class Report:
    """The properties of its call that a rank sends to the others.

    Attributes:
        configuration: The arguments that have to be the same on all ranks.
        lengths: The lengths of its query and of its key sets.
        wants_gradient: Whether any of its tensors requires a gradient; if one rank's do, all ranks take part in the
            backward pass.
        largest: The largest magnitude of each of its value sets, where it has a state.
        roundings: How many roundings a token of each key set has gone through, where it has a state.
    """

    configuration: dict[str, object]
    lengths: tuple[int, ...]
    wants_gradient: bool
    largest: tuple[float, ...] = ()
    roundings: tuple[int, ...] = ()


class RankPass:
    """The forward or the backward pass of a call on this rank, from one meeting to the next."""

    def __init__(self, ranks: Ranks, call: int, *, backward: bool) -> None:
        self.ranks, self.call, self.backward = ranks, call, backward
        self._meeting = 0

    def together(self, work: Callable[[], Made], arriving: Callable[[], None] | None = None) -> Made:
        """The result of `work`, once all ranks have theirs; the same error on every rank if it fails on any.

        `arriving` waits for an exchange that is under way meanwhile, also if the work fails.
        """
        result, failure = _attempted(work)
        if arriving is not None:
            arriving()
        self._agree("" if failure is None else _told(failure), failure)
        return result[0]

    def agree(self, prepare: Callable[[], tuple[Made, Report]]) -> tuple[Made, list[Report]]:
        """The result of `together` for the work that begins a call, and the reports of all ranks, which must agree."""

        def work() -> tuple[Made, str]:
            result, report = prepare()
            configuration = {"separatrix.__version__": __version__, **report.configuration}
            said = json.dumps(astuple(replace(report, configuration=configuration)))
            if len(said) > LONGEST_TEXT:
                raise ArgumentError("query", expected="fewer leading dimensions", got=f"{len(said)} bytes to tell them")
            return result, said

        result, failure = _attempted(work)
        heard = self._agree(result[0][1] if failure is None else _told(failure), failure)
        reports = [json.loads(text) for text in heard]
        _compare([configuration for configuration, *_ in reports])
        return result[0][0], [
            Report(configuration, tuple(lengths), wants, tuple(largest), tuple(roundings))
            for configuration, lengths, wants, largest, roundings in reports
        ]

    def _agree(self, said: str, failure: Exception | None) -> list[str]:
        """The messages of all ranks, if all have arrived and none has failed."""
        text, board = said.encode(), self.ranks.state.board
        place = Meeting(self.call, self.backward, self._meeting)
        self._meeting += 1
        numbers = [place.call, place.backward, place.meeting, failure is not None, len(text)]
        board.mine.copy_(torch.tensor(numbers, dtype=torch.int64))
        self.ranks.state.come(place)
        self.ranks.meet(board.mine, board.all)
        rows = board.all.tolist()
        places = [Meeting(call, bool(backward), meeting) for call, backward, meeting, _, _ in rows]
        if any(other != place for other in places):
            # After an error all ranks count their calls from the same number.
            self.ranks.state.call = max(other.call for other in places)
            raise SeparatrixError(_out_of_step(places)) from failure
        longest = max(length for *_, length in rows)
        room = -(-longest // _REPORT) * _REPORT
        if room:
            board.text[:room].copy_(torch.tensor(list(text.ljust(room)), dtype=torch.uint8))
            self.ranks.gather(board.text[:room], board.texts[:, :room], "agreement")
        heard = [bytes(row[:length].tolist()).decode() for row, (*_, length) in zip(board.texts, rows, strict=True)]
        for rank, (*_, failed, _) in enumerate(rows):
            if failed:
                raise _error(rank, json.loads(heard[rank])) from failure
        return heard


def _attempted(work: Callable[[], Made]) -> tuple[list[Made], Exception | None]:
    """The result of `work` as the only entry of a list; or an empty list and the reason why it failed."""
    try:
        return [work()], None
    except Exception as error:
        return [], error


def _compare(configurations: list[dict[str, object]]) -> None:
    """Raise an `ArgumentError` that names the first entry in which the configuration of a rank differs from rank 0's.

    Another version of the library may have other entries, and what follows its configuration may differ too.

    >>> _compare([{"order": 3, "scale": 0.5}, {"order": 3, "scale": 0.25}])
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: scale: expected the same on every rank, 0.5 as on rank 0, got 0.25 on rank 1.
    """
    for rank, configuration in enumerate(configurations):
        for name, value in configurations[0].items():
            theirs = configuration.get(name)
            if theirs != value:
                expected = f"the same on every rank, {value} as on rank 0"
                raise ArgumentError(name, expected=expected, got=f"{theirs} on rank {rank}")


def _told(error: Exception) -> str:
    """A failure as it is sent to the other ranks, with texts that are shortened to fit in a meeting."""
    if isinstance(error, ArgumentError):
        parts = {"argument": error.argument, "expected": error.expected, "got": error.got, "of": error.hypothesis}
        return json.dumps({name: None if part is None else part[:300] for name, part in parts.items()})
    kind = "" if isinstance(error, SeparatrixError) else f"{type(error).__name__}: "
    return json.dumps({"sentence": f"{kind}{error}"[:1200]})


def _error(rank: int, told: dict[str, str]) -> SeparatrixError:
    """The error that every rank raises for the failure of one."""
    if "sentence" in told:
        return SeparatrixError(f"On rank {rank}: {told['sentence']}")
    argument = f"{told['argument']} on rank {rank}"
    return ArgumentError(argument, expected=told["expected"], got=told["got"], hypothesis=told["of"])


def _out_of_step(places: list[Meeting]) -> str:
    """Which rank is where.

    >>> _out_of_step([Meeting(7, True, 0), Meeting(8, False, 0), Meeting(7, True, 0)])
    'The ranks are out of step: ranks 0 and 2 are at meeting 0 in the backward pass of call 7, rank 1 is at meeting 0 \
in the forward pass of call 8. Each rank must make the same calls, and run their backward passes in the same order.'
    """
    told = []
    for place in dict.fromkeys(places):
        ranks = [str(rank) for rank, other in enumerate(places) if other == place]
        who = f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(ranks[:-1])} and {ranks[-1]} are"
        told.append(f"{who} at {place}")
    return (
        f"The ranks are out of step: {', '.join(told)}. Each rank must make the same calls, and run their backward "
        "passes in the same order."
    )
