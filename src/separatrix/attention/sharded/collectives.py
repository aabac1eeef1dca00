"""Collective operations between the ranks of a process group: all are counted, and all have a timeout.

Each exchange writes into a tensor that the caller has allocated, so that only the transport can fail here. If it fails
or exceeds the timeout, `GroupState` determines which ranks are absent, and the group can no longer be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch.distributed as dist
from torch import Tensor

from separatrix.attention.sharded.rank_progress import GroupState, group_state
from separatrix.checks import is_number
from separatrix.errors import ArgumentError


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
        raise ArgumentError("group", expected="a group that this process is a rank of", got="one that it is not in")
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
