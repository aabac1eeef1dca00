"""The speed of one core relative to the machine of the cost model, measured once per process.

The constants of the cost model ship with the source, so that plans do not depend on the machine; only the times on the
page do. The explorer computes on one thread, because on a busy machine the threads of torch mostly wait for each other.
The measured time is the CPU time of that thread.
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
"""The seconds for which each method is timed."""

_ONE = threading.Lock()
_found: dict[str, float] = {}


@dataclass(frozen=True)
class Speeds:
    """For each method, the time on this machine divided by the time of the cost model."""

    factors: Mapping[str, float]

    def seconds(self, method: str, modelled: float) -> float:
        """Convert nanoseconds of the cost model to seconds on this machine.

        >>> Speeds({"exact": 2.0, "polynomial": 3.0}).seconds("exact", 1e9)
        2.0
        """
        return 1e-9 * modelled * self.factors[method]


@contextmanager
def one_core() -> Iterator[None]:
    """A context in which torch uses one thread and no other thread of the explorer computes."""
    with _ONE:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def speeds() -> Speeds:
    """The speeds that `separatrix doctor` measures; the first call measures them, and concurrent calls wait for it."""
    if not _found:
        with one_core():
            if not _found:
                _found.update(
                    {speed.method: speed.factor for speed in doctor.speeds(seconds=SECONDS, clock=thread_time)}
                )
    return Speeds(_found)
