"""Independent lists of the papers' slips, and an estimate of the number of slips in no list.

One list is the errata of the ledger. Two readers, who saw neither the ledger nor each other's list, read the three
papers (`readings.toml`). If all slips are equally easy to find, and two lists are independent, the size of their
overlap gives an estimate of the number of all slips: Chapman's estimate, with Chao's log-normal interval for the slips
in neither list. Slips that are easy to see are in both lists more often than independence implies, so the estimate is
more likely too low than too high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

from separatrix.claims.errata import slips
from separatrix.claims.ledger import Interval, Rank
from separatrix.lab.tomlfile import load

_FILE = Path(__file__).with_name("readings.toml")
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class TextSlip:
    """A slip of a paper's text that no program shows: where it is, what is printed and what is right.

    `readings` are the readings that found it; it is empty for slips that were found later, by readers who had the
    lists.
    """

    paper: str
    at: str
    printed: str
    right: str
    rank: Rank = Rank.TYPOGRAPHICAL
    readings: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Overlap:
    """The number of slips in each of two lists, and in both."""

    first: int
    second: int
    both: int

    @property
    def either(self) -> int:
        """The number of slips in one list or in both."""
        return self.first + self.second - self.both


@cache
def _read() -> dict[str, Any]:
    return load(_FILE)


def _names(kind: str) -> list[tuple[str, str]]:
    """The names of the errata of a kind: those that the readers knew before, missed, or added to the ledger."""
    return [(claim, shown_by) for claim, shown_by in _read()[kind]]


def text_slips(paper: str | None = None) -> list[TextSlip]:
    """The slips found by reading that no program shows, of one paper or of all, in the order of the text.

    >>> {slip.rank.value for slip in text_slips("kronecker") if slip.readings}
    {'typographical'}
    """
    read = [
        TextSlip(
            **{**slip, "rank": Rank(slip.get("rank", "typographical")), "readings": tuple(slip.get("readings", (1, 2)))}
        )
        for slip in _read()["slip"]
    ]
    return [slip for slip in read if paper in (None, slip.paper)]


def overlap(paper: str | None = None) -> Overlap:
    """The overlap of the ledger and the first reading, of one paper or of all; the claims must be registered.

    Raises:
        ValueError: if a reading names an erratum that the ledger does not have.
    """
    told_of, added = _count("told", paper), _count("added", paper)
    ledger = len(slips(paper)) - told_of - added
    both = ledger - _count("missed", paper)
    return Overlap(ledger, both + added + sum(1 in slip.readings for slip in text_slips(paper)), both)


def second_overlap(paper: str | None = None) -> Overlap:
    """The overlap of the second reading with the union of the ledger and the first reading, as counted by `overlap`."""
    before = overlap(paper).either
    text = text_slips(paper)
    missed = _count("missed_by_second", paper) + sum(slip.readings == (1,) for slip in text)
    both = before - missed
    return Overlap(before, both + sum(slip.readings == (2,) for slip in text), both)


def _count(kind: str, paper: str | None) -> int:
    """The number of errata of a kind, of one paper or of all."""
    named = {(claim.id, erratum.shown_by): slip for slip in slips() for claim, erratum in slip.places}
    unknown = [name for name in _names(kind) if name not in named]
    if unknown:
        raise ValueError(f"readings.toml names errata that the ledger does not have: {unknown}")
    return sum(paper in (None, named[name].claim.paper) for name in _names(kind))


def unseen(lists: Overlap) -> Interval:
    """An estimate of the number of slips in neither list: Chapman's estimate, with Chao's log-normal interval.

    Args:
        lists: the sizes of the two lists and of their overlap.

    Example:
        >>> print(unseen(Overlap(first=30, second=40, both=20)))
        9.52381 (3.5483 to 25.5624 at 95%)
    """
    m, n, both = lists.first, lists.second, lists.both
    estimate = (m + 1) * (n + 1) / (both + 1) - 1 - lists.either
    if estimate <= 0:
        return Interval(0.0, 0.0, 0.0, _CONFIDENCE)
    variance = (m + 1) * (n + 1) * (m - both) * (n - both) / ((both + 1) ** 2 * (both + 2))
    quantile = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    spread = math.exp(quantile * math.sqrt(math.log(1 + variance / estimate**2)))
    return Interval(estimate, estimate / spread, estimate * spread, _CONFIDENCE)
