"""What the ranks of a process group say to each other: every message counted, and none sent before all agree to go on.

A collective that one rank never reaches leaves the others waiting. So each call begins with a report from every rank,
of a size that does not depend on the data: its arguments are in order, or which one is not. Where one is not, every
rank raises the same error and nobody waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from separatrix.errors import ArgumentError, SeparatrixError

Made = TypeVar("Made")

_REPORT = 1024
"""Reports are padded to a multiple of so many bytes: the digits of a length do not change what is sent."""


@dataclass
class Sent:
    """Bytes that this rank handed to each kind of message, and how many messages of the kind there were.

    The kinds are "agreement", "all_reduce", "all_gather", "reduce_scatter" and "send". What is counted is the tensor
    handed over; how often it then crosses a wire is the backend's affair, and depends on the number of ranks alone.
    """

    bytes: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


_counting: list[Sent] = []
"""Not a context variable: the backward pass of a device runs in a thread of its own."""


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
    """The ranks of a group, seen from the one at `rank`. Of empty tensors, empty on all ranks, nothing is sent."""

    group: dist.ProcessGroup
    rank: int
    count: int

    def sum(self, x: Tensor) -> Tensor:
        """The sum of x over all ranks, on every rank."""
        total = x.clone(memory_format=torch.contiguous_format)
        if total.numel():
            _count("all_reduce", total)
            dist.all_reduce(total, group=self.group)
        return total

    def gather(self, x: Tensor, kind: str = "all_gather") -> Tensor:
        """x of every rank, (ranks, *x.shape), on every rank; all of one shape."""
        gathered = x.new_empty(self.count, *x.shape)
        if x.numel():
            _count(kind, x)
            dist.all_gather(list(gathered), x.contiguous(), group=self.group)
        return gathered

    def scatter_sum(self, x: Tensor) -> Tensor:
        """Row `rank` of the sum of x (ranks, ...) over all ranks."""
        mine = torch.empty_like(x[0])
        if x.numel():
            _count("reduce_scatter", x)
            dist.reduce_scatter(mine, list(x.contiguous()), group=self.group)
        return mine

    def pass_on(self, x: Tensor, arriving: Sequence[int], tag: int = 0) -> Callable[[], Tensor]:
        """Send x to the next rank, in a ring, and receive a tensor of shape `arriving` from the one before.

        What is returned waits for both and gives the tensor. `tag` tells apart what is under way at once. Empty
        tensors are not sent.
        """
        if self.count == 1:
            return lambda: x
        x, came = x.contiguous(), x.new_empty(tuple(arriving))
        to, of = (self.rank + 1) % self.count, (self.rank - 1) % self.count
        messages = []
        if x.numel():
            _count("send", x)
            messages.append(dist.P2POp(dist.isend, x, group=self.group, tag=tag, group_peer=to))
        if came.numel():
            messages.append(dist.P2POp(dist.irecv, came, group=self.group, tag=tag, group_peer=of))
        under_way = dist.batch_isend_irecv(messages) if messages else []

        def wait() -> Tensor:
            for request in under_way:
                request.wait()
            return came

        return wait


def ranks_of(group: dist.ProcessGroup | None) -> Ranks:
    """The ranks of a group, None for the default one; an error where there is none or this process is not in it."""
    if not dist.is_available() or not dist.is_initialized():
        raise ArgumentError(
            "group",
            expected="an initialised process group (torch.distributed.init_process_group)",
            got="none in this process",
        )
    rank = dist.get_rank(group)
    if rank < 0:
        raise ArgumentError("group", expected="a group that this process is a rank of", got="one that it is not in")
    whole = dist.group.WORLD if group is None else group
    assert whole is not None
    return Ranks(whole, rank, dist.get_world_size(group))


@dataclass(frozen=True)
class Report:
    """What a rank tells the others of its call.

    configuration: what has to be the same on all of them. lengths: of its query and its key sets.
    wants_gradient: whether any of its tensors does; if one rank's do, all take part in the backward pass.
    """

    configuration: dict[str, object]
    lengths: tuple[int, ...]
    wants_gradient: bool


def agree(ranks: Ranks, prepare: Callable[[], tuple[Made, Report]]) -> tuple[Made, list[Report]]:
    """What `prepare` makes, and the reports of all ranks; the same error on every rank if it fails on any."""
    refusal: SeparatrixError | None = None
    made: tuple[Made, Report] | None = None
    try:
        made = prepare()
        said = json.dumps({"report": [made[1].configuration, made[1].lengths, made[1].wants_gradient]})
    except ArgumentError as error:
        refusal = error
        said = json.dumps({"argument": [error.argument, error.expected, error.got, error.hypothesis]})
    except SeparatrixError as error:
        refusal = error
        said = json.dumps({"sentence": str(error)})
    heard = [json.loads(text) for text in _exchange(ranks, said)]
    for rank, each in enumerate(heard):
        if "argument" in each:
            argument, expected, got, hypothesis = each["argument"]
            raise ArgumentError(
                f"{argument} on rank {rank}", expected=expected, got=got, hypothesis=hypothesis
            ) from refusal
        if "sentence" in each:
            raise SeparatrixError(f"On rank {rank}: {each['sentence']}") from refusal
    reports = [Report(each["report"][0], tuple(each["report"][1]), each["report"][2]) for each in heard]
    for rank, report in enumerate(reports):
        for name, value in reports[0].configuration.items():
            theirs = report.configuration.get(name)
            if theirs != value:
                expected = f"the same on every rank, {value} as on rank 0"
                raise ArgumentError(name, expected=expected, got=f"{theirs} on rank {rank}")
    assert made is not None
    return made[0], reports


def _exchange(ranks: Ranks, said: str) -> list[str]:
    """A text of every rank, on every rank: its size first, then its bytes."""
    nccl = dist.get_backend(ranks.group) == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
    text = said.encode()
    sizes = ranks.gather(torch.tensor([len(text)], device=device), "agreement").flatten().tolist()
    room = -(-max(sizes) // _REPORT) * _REPORT
    padded = torch.tensor(list(text.ljust(room)), dtype=torch.uint8, device=device)
    return [bytes(row.tolist()).decode() for row in ranks.gather(padded, "agreement")]
