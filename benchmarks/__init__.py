"""Ratios against peers and against the machine's own roofline.

A benchmark is a module of this package with a function `rows()` that gives rows; `python -m benchmarks` finds it.
A row is a `Row`, or anything with a `name`, `seconds` and `peer_seconds` where there is no target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison: what was measured here, and the same of a peer, a roofline or a limit.

    `unit` is "s" for seconds, "B" for bytes, "" for a plain number. The smaller the better: the target is
    measured / peer_measured <= at_most, and without one the row only informs. A peer that was not run is None,
    and `note` says why.

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
        """None where there is nothing to reach or nothing to compare with."""
        return None if self.ratio is None or self.at_most is None else self.ratio <= self.at_most


def as_row(row: Any) -> Row:
    """The row itself, or the `Row` of a name and two times."""
    return row if isinstance(row, Row) else Row(row.name, row.seconds, "its peer", row.peer_seconds)
