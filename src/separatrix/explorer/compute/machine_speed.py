"""How one core of this machine compares with the machine whose nanoseconds the cost model holds: timed once a process.

The model's constants ship with the source so that plans never depend on the machine; only the times that the page shows
do. On a busy machine torch's threads wait for each other a hundred times longer than they work, so the explorer
computes on one thread; and what counts is that thread's own time, not the time in which others have the core.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import thread_time

import torch

from separatrix import doctor

SECONDS = 0.1
"""How long each method is timed."""

_ONE = threading.Lock()
_found: dict[str, float] = {}


@dataclass(frozen=True)
class Speeds:
    """How many times as long as in the model each method takes here."""

    factors: Mapping[str, float]

    def seconds(self, method: str, modelled: float) -> float:
        """What so many nanoseconds of the model are here.

        >>> Speeds({"exact": 2.0, "polynomial": 3.0}).seconds("exact", 1e9)
        2.0
        """
        return 1e-9 * modelled * self.factors[method]


@contextmanager
def one_core() -> Iterator[None]:
    """A block in which torch has one thread, and no other thread of the explorer computes."""
    with _ONE:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def speeds() -> Speeds:
    """The speeds that `separatrix doctor` measures, timed at the first call; other calls wait meanwhile."""
    if not _found:
        with one_core():
            if not _found:
                _found.update({one.method: one.factor for one in doctor.speeds(seconds=SECONDS, clock=thread_time)})
    return Speeds(_found)
