"""The data of a claim on the page, read from the store: the verdict, the cells and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.claims.verdicts import Judgement, cell_result, difference
from separatrix.lab.cell import Cell
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store
from separatrix.report.panel import FigurePanel, Figures, panel


@dataclass(frozen=True, slots=True)
class CellFacts:
    """A cell and the provenance of its result. `status` is None if the cell is not in the store."""

    key: str
    cell: Cell
    status: str | None
    seconds: float | None
    finished: float | None
    origin: str | None


@dataclass(frozen=True)
class Entry:
    """A claim on the page. `difference` says how the verdict differs from the recorded one; None if it does not."""

    judgement: Judgement
    cells: tuple[CellFacts, ...]
    panels: tuple[FigurePanel, ...]
    difference: str | None = None

    @property
    def complete(self) -> bool:
        """Whether all cells of the claim are done."""
        return not (self.judgement.missing or self.judgement.failed or self.judgement.problem)


def entry(judgement: Judgement, store: Store, figures: Figures, recorded: Mapping[str, Verdict]) -> Entry:
    """Read the cells of a claim, and draw its figures if all cells are done. No cell is run."""
    claim = judgement.claim
    whole = not (judgement.missing or judgement.failed or judgement.problem)
    facts: list[CellFacts] = []
    results: list[CellResult] = []
    for cell, record in store.find(claim.cells()) if judgement.keys else ():
        facts.append(_facts(cell, record))
        if whole and claim.figures and record is not None:
            results.append(cell_result(store, cell, record))
    panels = [_draw(name, claim.id, figures, results) for name in claim.figures] if whole else []
    unlike = None if judgement.verdict is Verdict.NOT_RUN else difference(judgement, recorded, "quick")
    return Entry(judgement, tuple(facts), tuple(panels), unlike)


def _facts(cell: Cell, record: StoredRecord | None) -> CellFacts:
    rest: tuple[Any, ...] = (None, None, None, None)
    if record is not None:
        rest = (record.status, record.seconds, record.finished, record.origin)
    return CellFacts(cell.key, cell, *rest)


def _draw(name: str, id: str, figures: Figures, results: Sequence[CellResult]) -> FigurePanel:
    if name not in figures:
        raise TypeError(f"claim {id} names the unknown figure {name!r}; the figures are {', '.join(figures) or 'none'}")
    try:
        return panel(name, figures[name], results)
    except Exception as error:
        error.add_note(f"This happened in the figure {name!r} of the claim {id}.")
        raise
