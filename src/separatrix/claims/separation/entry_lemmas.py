"""Lemmas about every entry, declared as data: the corrected lines must hold, and the printed slips must not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from separatrix.claims import load
from separatrix.claims.ledger import CellResult, Claim, Erratum, Finding, Neighbour, Verdict, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.separation.statements import Reading, Values, evaluate


@dataclass(frozen=True)
class EntrySlip:
    """A misprint: the printed lines, which fail, and the erratum.

    `a1`, if given, is a value that the printed hypotheses allow and the corrected ones exclude.
    """

    reading: Reading
    erratum: Erratum
    a1: Fraction | None = None


@dataclass(frozen=True)
class Lemma:
    """A corrected lemma and its misprints."""

    where: str
    says: str
    right: Reading
    slips: tuple[EntrySlip, ...] = ()
    note: str = ""

    @property
    def errata(self) -> tuple[Erratum, ...]:
        """The errata of all misprints."""
        return tuple(slip.erratum for slip in self.slips)

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """The wrong neighbours of a lemma: the bound of one line is multiplied by a factor that makes it false."""
        words = {"=": "the value", "<=": "the upper bound", ">=": "the lower bound"}
        return tuple(
            Neighbour(
                f"Part {line.part}: {words[line.relation]} is {factor:g} times the printed one",
                {"part": line.part, "factor": factor},
            )
            for line in self.right.lines
            if line.count is None
            for factor in [LOOSE.get((self.where, line.part), FACTORS[line.relation])]
        )


FACTORS = {"=": 1.01, "<=": 0.9, ">=": 1.1}
"""The factors by which the bounds of lines are multiplied in neighbours.

A line about a number of keys has its misprints as neighbours instead.
"""
LOOSE: Mapping[tuple[str, str], float] = {
    ("Lemma D.2", "3a"): 1.3,
    ("Lemma D.2", "3b"): 0.6,
    ("Lemma D.2", "4a"): 0.75,
    ("Lemma D.2", "4b"): 0.75,
    ("Lemma D.3", "1"): 1.3,
    ("Lemma D.3", "2, j_3's class"): 1.4,
    ("Lemma D.3", "2, others"): 0.6,
    ("Lemma D.3", "4"): 0.75,
    ("Lemma D.3", "5, j_3's class"): 0.75,
    ("Lemma D.3", "5, others"): 0.75,
    ("Lemma D.11", "2"): 0.7,
    ("Lemma D.11", "5"): 0.7,
    ("Lemma E.1", "3b"): 0.65,
    ("Lemma E.2", "2, j_3's class"): 1.3,
    ("Lemma E.2", "2, others"): 0.5,
    ("Lemma F.2", "3b"): 0.65,
    ("Lemma F.3", "2, j_3's class"): 1.2,
    ("Lemma F.3", "2, others"): 0.65,
    ("Lemma F.11", "2"): 0.8,
}
"""Factors for lines whose bound is not attained in any setting."""
LEMMAS: dict[str, Lemma] = {}
"""The registered lemmas, by their places."""


def entry_lemma(where: str) -> Lemma:
    """The lemma at a place of the paper, after loading all claims, because a worker process imports only one file."""
    load("separation")
    return LEMMAS[where]


def outcome(lemma: Lemma, settings: Iterable[Values]) -> dict[str, Any]:
    """Return [compared, violations, ratio] of each line over several settings, by part, and totals of each misprint."""
    right: dict[str, list[Any]] = {}
    slips = [[0, 0] for _ in lemma.slips]
    relation = {line.part: line.relation for line in lemma.right.lines}
    for values in settings:
        for part, comparison in evaluate(lemma.right, values).items():
            compared, violations, ratio = right.get(part, [0, 0, None])
            ratios = [x for x in (ratio, comparison.ratio) if x is not None]
            worst = (min if relation[part] == ">=" else max)(ratios, default=None)
            right[part] = [compared + comparison.compared, violations + comparison.violations, worst]
        for count, slip in zip(slips, lemma.slips, strict=True):
            for comparison in evaluate(slip.reading, replace(values, a1=slip.a1 or values.a1)).values():
                count[0] += comparison.compared
                count[1] += comparison.violations
    return {"right": right, "slips": slips, "relation": relation}


def register(lemma: Lemma, cells: Callable[[str], Iterable[Cell]], home: str) -> Claim:
    """Register the lemma as a claim.

    `cells` maps the place of a lemma in the paper to its cells, whose results are those of `outcome`; `home` is the
    module that declares the lemma.
    """
    LEMMAS[lemma.where] = lemma

    @claim(
        where=lemma.where,
        says=lemma.says,
        cells=lambda: cells(lemma.where),
        errata=lemma.errata,
        figures=("entry_bounds",),
        neighbours=lemma.neighbours,
        home=home,
    )
    def check(cells: Sequence[CellResult], part: str = "", factor: float = 1.0) -> Finding:
        return judged(lemma, cells, part, factor)

    return check


def judged(lemma: Lemma, cells: Sequence[CellResult], part: str = "", factor: float = 1.0) -> Finding:
    """Return *holds* if no entry violates a corrected line; a slip is shown if some entry refutes it.

    If the bound of a part is multiplied by `factor`, the largest or least ratio of an entry to its bound decides that
    part. Ratios are computed in float64, and the factors are far from them.
    """
    rows = [row for cell in cells for row in cell.result["right"].values()]
    broken = 0
    for line in lemma.right.lines:
        ratios = [cell.result["right"][line.part][2] for cell in cells if line.part == part]
        known = [ratio for ratio in ratios if ratio is not None]
        broken += sum(_beyond(ratio, line.relation, factor) for ratio in known)
    numbers: dict[str, float | str] = {
        "settings (n, d, a_0, a_1, b, c)": len(cells),
        "comparisons": sum(compared for compared, _, _ in rows),
        "entries that violate the lemma": sum(violations for _, violations, _ in rows),
    }
    shows = {}
    for k, erratum in enumerate(lemma.errata):
        counts = [cell.result["slips"][k] for cell in cells]
        refuted, total = (sum(count[at] for count in counts) for at in (1, 0))
        shows[erratum.shown_by] = refuted > 0
        numbers[f"against what is printed, {erratum.shown_by}"] = f"{refuted:,} of {total:,}"
    unmet = [name for name in cells[0].result["right"] if not any(cell.result["right"][name][0] for cell in cells)]
    if unmet:
        return Finding(Verdict.UNDECIDED, numbers, f"No setting has an entry of part {', '.join(unmet)}.")
    return holds_if(not numbers["entries that violate the lemma"] and not broken, numbers, lemma.note, shows=shows)


def _beyond(ratio: float, relation: str, factor: float) -> bool:
    """Whether the extreme ratio of an entry to its bound contradicts the bound multiplied by a factor."""
    if relation == "=":
        return abs(ratio / factor - 1) > 1e-9
    return ratio > factor if relation == "<=" else ratio < factor
