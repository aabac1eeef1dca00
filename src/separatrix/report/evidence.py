"""What the page shows of a claim, read from the store: the judgement, its cells and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from separatrix.claims.ledger import Found, Verdict
from separatrix.claims.verdicts import Judgement, difference, found_in
from separatrix.lab.cell import Cell
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store
from separatrix.report.panel import FigurePanel, Figures, panel


@dataclass(frozen=True, slots=True)
class CellFacts:
    """A cell and where its result comes from. `status` is None where the store does not have it."""

    key: str
    cell: Cell
    status: str | None
    seconds: float | None
    finished: float | None
    origin: str | None


@dataclass(frozen=True)
class Entry:
    """A claim on the page. `difference` says how a verdict found here is not the recorded one, if it is not."""

    judgement: Judgement
    cells: tuple[CellFacts, ...]
    panels: tuple[FigurePanel, ...]
    difference: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the verdict and the figures have all of the results they need."""
        return not (self.judgement.missing or self.judgement.failed or self.judgement.problem)


def entry(judgement: Judgement, store: Store, figures: Figures, recorded: Mapping[str, Verdict]) -> Entry:
    """Read the cells of a claim, and draw its figures if all of them are there; nothing is run."""
    claim = judgement.claim
    whole = not (judgement.missing or judgement.failed or judgement.problem)
    facts: list[CellFacts] = []
    found: list[Found] = []
    for cell, record in store.find(claim.cells()) if judgement.keys else ():
        facts.append(_facts(cell, record))
        if whole and claim.figures and record is not None:
            found.append(found_in(store, cell, record))
    panels = [_draw(name, claim.id, figures, found) for name in claim.figures] if whole else []
    unlike = None if judgement.verdict is Verdict.NOT_RUN else difference(judgement, recorded, "quick")
    return Entry(judgement, tuple(facts), tuple(panels), unlike)


def _facts(cell: Cell, record: StoredRecord | None) -> CellFacts:
    rest: tuple[Any, ...] = (None, None, None, None)
    if record is not None:
        rest = (record.status, record.seconds, record.finished, record.origin)
    return CellFacts(cell.key, cell, *rest)


def _draw(name: str, id: str, figures: Figures, found: Sequence[Found]) -> FigurePanel:
    if name not in figures:
        raise TypeError(f"claim {id} names the figure {name!r}, which is none of {', '.join(figures) or 'none'}")
    try:
        return panel(name, figures[name], found)
    except Exception as error:
        error.add_note(f"This happened in the figure {name!r} of the claim {id}.")
        raise
