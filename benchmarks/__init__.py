"""Ratios against peers and against the machine's own roofline.

A benchmark is a module of this package with a function `rows()` that yields rows; `python -m benchmarks` finds it. A
row is a `Row`, or anything with a `name`, `seconds` and `peer_seconds` if there is no target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison: our measurement, and that of a peer, or a roofline, or a limit.

    `unit` is "s" for seconds, "B" for bytes, "" for a plain number. Smaller is better: the target is measured /
    peer_measured <= at_most; a row without `at_most` has no target. A peer that was not run is None, and `note` says
    why.

    >>> row = Row("order 3, n = 512", 0.25, "einsum", 2.0, at_most=0.2)
    >>> row.ratio, row.reached
    (0.125, True)
    """

    name: str
    measured: float
    peer: str
    peer_measured: float | None
    at_most: float | None = None
    unit: str = "s"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if self.peer_measured is None else self.measured / self.peer_measured

    @property
    def reached(self) -> bool | None:
        """None if there is no target or no measurement of a peer."""
        return None if self.ratio is None or self.at_most is None else self.ratio <= self.at_most


def as_row(row: Any) -> Row:
    """The row itself if it is a `Row`, or a `Row` made from a name and two times."""
    return row if isinstance(row, Row) else Row(row.name, row.seconds, "its peer", row.peer_seconds)
