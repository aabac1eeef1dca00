"""Counts of the outcomes of many cases: they add up over runs and processes, and give the median."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.attention.fuzz.outcomes import BROKEN, HELD, REFUSED, UNPROMISED, Outcome

_BINS = 20
"""The number of bins for a factor of ten: the median has an error of at most 12%."""


def _bin(ratio: float) -> str:
    """The floor of 20 times the decimal logarithm; -inf for 0."""
    return str(math.floor(_BINS * math.log10(ratio))) if 0 < ratio < math.inf else "inf" if ratio else "-inf"


@dataclass
class Count:
    """For one kind: cases by outcome, the largest ratio of error to certificate, and the histogram of ratios.

    `spread` counts ratios by the floor of 20 times their decimal logarithm, and `recipes` calls by the kind of the
    polynomial that they were computed by.
    """

    held: int = 0
    broken: int = 0
    refused: int = 0
    unpromised: int = 0
    largest: float = 0.0
    spread: dict[str, int] = field(default_factory=dict)
    recipes: dict[str, int] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        """Cases that had a certificate to check."""
        return self.held + self.broken

    def add(self, outcome: Outcome) -> None:
        """Count one more case."""
        setattr(self, outcome.how, getattr(self, outcome.how) + 1)
        for recipe in outcome.recipes:
            self.recipes[recipe] = self.recipes.get(recipe, 0) + 1
        if outcome.how in (HELD, BROKEN):
            self.largest = max(self.largest, outcome.ratio)
            self.spread[_bin(outcome.ratio)] = self.spread.get(_bin(outcome.ratio), 0) + 1

    def merge(self, other: Count) -> None:
        """Add the cases of another count."""
        for name in (HELD, BROKEN, REFUSED, UNPROMISED):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest = max(self.largest, other.largest)
        for counts, others in ((self.spread, other.spread), (self.recipes, other.recipes)):
            for name, number in others.items():
                counts[name] = counts.get(name, 0) + number

    def median_looseness(self) -> float:
        """The median of certificate over error, infinite if most errors are 0."""
        left = self.answered / 2
        for name, number in sorted(self.spread.items(), key=lambda item: float(item[0])):
            left -= number
            if left <= 0:
                return 10 ** (-(float(name) + 0.5) / _BINS)
        return math.nan


@dataclass
class Tally:
    """Counts by kind, descriptions of the broken cases, and the included parts of seeds: [seed, first, last]."""

    kinds: dict[str, Count] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    parts: list[list[int]] = field(default_factory=list)

    def add(self, outcome: Outcome, seed: int, number: int) -> None:
        """Count one more case."""
        self.kinds.setdefault(outcome.kind, Count()).add(outcome)
        if outcome.how == BROKEN:
            self.broken.append(f"seed {seed}, case {number}: {outcome.told}")

    def merge(self, other: Tally) -> None:
        """Add the cases of another tally."""
        for kind, count in other.kinds.items():
            self.kinds.setdefault(kind, Count()).merge(count)
        self.broken += other.broken
        self.parts += other.parts

    @property
    def cases(self) -> int:
        return sum(count.answered + count.refused + count.unpromised for count in self.kinds.values())

    def total(self) -> Count:
        """The counts of all kinds together."""
        total = Count()
        for count in self.kinds.values():
            total.merge(count)
        return total

    def save(self, path: Path) -> None:
        """Write the tally with its medians to a temporary file and rename it: the file is always complete."""
        ordered = Tally(dict(sorted(self.kinds.items())), self.broken, sorted(self.parts))
        for count in ordered.kinds.values():
            count.spread = dict(sorted(count.spread.items(), key=lambda item: float(item[0])))
        said = asdict(ordered)
        for kind, count in [*ordered.kinds.items(), ("all", ordered.total())]:
            said.setdefault("looseness", {})[kind] = count.median_looseness()
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(said, indent=1) + "\n")
        os.replace(beside, path)

    @staticmethod
    def load(path: Path) -> Tally:
        """The saved tally; an empty one if there is no file."""
        if not path.exists():
            return Tally()
        said = json.loads(path.read_text())
        return Tally({kind: Count(**count) for kind, count in said["kinds"].items()}, said["broken"], said["parts"])

    def lines(self) -> list[str]:
        """A line for each kind of call, one for all calls, and one that counts the polynomials."""
        total = self.total()
        rows = [*sorted(self.kinds.items()), ("all", total)]
        recipes = ", ".join(f"{name} {number}" for name, number in sorted(total.recipes.items()))
        return [
            f"{kind:34} {count.answered:7} answered, {count.refused:6} refused, {count.unpromised:6} unpromised, "
            f"{count.broken} broken, largest ratio {count.largest:.6f}, median looseness {count.median_looseness():.3g}"
            for kind, count in rows
        ] + [f"calls by polynomials: {recipes or 'none'}"]
