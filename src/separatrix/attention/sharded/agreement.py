"""A barrier before each collective: all ranks of a process group are in the same call, and none has failed.

If one rank never reaches a collective, the others wait forever; if it reaches the collective in another call, all ranks
get wrong numbers. So the local work of a rank ends in a *barrier*: an all-gather of a fixed size in which each rank
sends the number of the call, the pass, the index of the barrier, and whether it has failed. If a rank has failed for
any reason, or is at another barrier, every rank raises the same error, and all ranks can continue with their next call.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import TypeVar

import torch

from separatrix import __version__
from separatrix.attention.call import Call
from separatrix.attention.sharded.collectives import LONGEST_TEXT, Barrier, Ranks
from separatrix.errors import ArgumentError, SeparatrixError

Result = TypeVar("Result")

_REPORT = 1024
"""Texts are padded to a multiple of this many bytes, so that the size of a message does not depend on digits."""


@dataclass(frozen=True)
class Report:
    """The report of a rank about its call to the other ranks.

    Attributes:
        configuration: The arguments that must be equal on all ranks.
        lengths: The lengths of the rank's query and of its key sets.
        wants_gradient: Whether any tensor of the rank requires a gradient. If a tensor of any rank requires one, all
            ranks take part in the backward pass.
        largest: The largest magnitude in each value set of the rank (near-linear attention only).
        roundings: The number of roundings of a token of each key set (near-linear attention only).
    """

    configuration: dict[str, object]
    lengths: tuple[int, ...]
    wants_gradient: bool
    largest: tuple[float, ...] = ()
    roundings: tuple[int, ...] = ()


def report_of(call: Call, function: str, is_causal: bool, **more: object) -> Report:
    """The report of a rank about its call of a function, whose further arguments are `more`."""
    configuration: dict[str, object] = {
        "function": function,
        "order": call.order,
        "head_dim": call.query.shape[-1],
        "value_dim": call.values[0].shape[-1],
        "batch_shape": call.batch,
        "dtype": str(call.query.dtype),
        "device": call.query.device.type,
        "scale": call.scale,
        "is_causal": is_causal,
        **more,
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
    }
    return Report(configuration, (call.query.shape[1], *call.key_lengths), call.wants_gradient)


class RankPass:
    """The forward or the backward pass of a call on this rank, from one barrier to the next."""

    def __init__(self, ranks: Ranks, call: int, *, backward: bool) -> None:
        self.ranks, self.call, self.backward = ranks, call, backward
        self._barrier = 0

    def synchronize(self, work: Callable[[], Result], arriving: Callable[[], None] | None = None) -> Result:
        """Run `work`, wait for all ranks, and return the result. If `work` fails on any rank, every rank raises the
        error.

        `arriving` waits for an asynchronous exchange that was started before; it is called even if `work` fails.
        """
        result, failure = _attempted(work)
        if arriving is not None:
            arriving()
        self._agree("" if failure is None else _encoded_failure(failure), failure)
        return result[0]

    def agree(self, prepare: Callable[[], tuple[Result, Report]]) -> tuple[Result, list[Report]]:
        """Run the work that begins a call; return its result and all ranks' reports, whose configurations must
        agree."""

        def work() -> tuple[Result, str]:
            result, report = prepare()
            configuration = {"separatrix.__version__": __version__, **report.configuration}
            message = json.dumps(astuple(replace(report, configuration=configuration)))
            if len(message) > LONGEST_TEXT:
                raise ArgumentError(
                    "query", expected="fewer leading dimensions", got=f"a shape that takes {len(message)} bytes"
                )
            return result, message

        result, failure = _attempted(work)
        messages = self._agree(result[0][1] if failure is None else _encoded_failure(failure), failure)
        reports = [json.loads(text) for text in messages]
        _compare([configuration for configuration, *_ in reports])
        return result[0][0], [
            Report(configuration, tuple(lengths), wants, tuple(largest), tuple(roundings))
            for configuration, lengths, wants, largest, roundings in reports
        ]

    def _agree(self, message: str, failure: Exception | None) -> list[str]:
        """The messages of all ranks at a barrier, or the error if a rank has failed or is at another barrier."""
        text, buffers = message.encode(), self.ranks.state.buffers
        place = Barrier(self.call, self.backward, self._barrier)
        self._barrier += 1
        numbers = [place.call, place.backward, place.index, failure is not None, len(text)]
        buffers.mine.copy_(torch.tensor(numbers, dtype=torch.int64))
        self.ranks.state.arrive(place)
        self.ranks.barrier(buffers.mine, buffers.all)
        rows = buffers.all.tolist()
        places = [Barrier(call, bool(backward), index) for call, backward, index, _, _ in rows]
        if any(other != place for other in places):
            # After the error the next call has the same number on all ranks.
            self.ranks.state.call = max(other.call for other in places)
            raise SeparatrixError(_out_of_step(places)) from failure
        longest = max(length for *_, length in rows)
        room = -(-longest // _REPORT) * _REPORT
        if room:
            buffers.text[:room].copy_(torch.tensor(list(text.ljust(room)), dtype=torch.uint8))
            self.ranks.gather(buffers.text[:room], buffers.texts[:, :room], "agreement")
        messages = [
            bytes(row[:length].tolist()).decode() for row, (*_, length) in zip(buffers.texts, rows, strict=True)
        ]
        for rank, (*_, failed, _) in enumerate(rows):
            if failed:
                raise _error(rank, json.loads(messages[rank])) from failure
        return messages


def _attempted(work: Callable[[], Result]) -> tuple[list[Result], Exception | None]:
    """The result of `work` in a list of one entry and None, or an empty list and the exception."""
    try:
        return [work()], None
    except Exception as error:
        return [], error


def _compare(configurations: list[dict[str, object]]) -> None:
    """Raise an `ArgumentError` that names the first entry in which the configuration of a rank differs from rank 0's.

    The version is the first entry: another version of the library may have other entries, and another report.

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


def _encoded_failure(error: Exception) -> str:
    """An exception as JSON for the other ranks, with texts that are truncated to fit into the message of a barrier."""
    if isinstance(error, ArgumentError):
        parts = {"argument": error.argument, "expected": error.expected, "got": error.got, "of": error.hypothesis}
        return json.dumps({name: None if part is None else part[:300] for name, part in parts.items()})
    kind = "" if isinstance(error, SeparatrixError) else f"{type(error).__name__}: "
    return json.dumps({"sentence": f"{kind}{error}"[:1200]})


def _error(rank: int, entries: dict[str, str]) -> SeparatrixError:
    """The error that every rank raises for the failure of one rank."""
    if "sentence" in entries:
        return SeparatrixError(f"On rank {rank}: {entries['sentence']}")
    argument = f"{entries['argument']} on rank {rank}"
    return ArgumentError(argument, expected=entries["expected"], got=entries["got"], hypothesis=entries["of"])


def _out_of_step(places: list[Barrier]) -> str:
    """The message of the error for ranks that are at different barriers.

    >>> _out_of_step([Barrier(7, True, 0), Barrier(8, False, 0), Barrier(7, True, 0)])
    'The ranks are out of step: ranks 0 and 2 are at barrier 0 in the backward pass of call 7, rank 1 is at barrier 0 \
in the forward pass of call 8. Each rank must make the same calls, and run their backward passes in the same order.'
    """
    positions = []
    for place in dict.fromkeys(places):
        ranks = [str(rank) for rank, other in enumerate(places) if other == place]
        who = f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(ranks[:-1])} and {ranks[-1]} are"
        positions.append(f"{who} at {place}")
    return (
        f"The ranks are out of step: {', '.join(positions)}. Each rank must make the same calls, and run "
        "their backward passes in the same order."
    )
