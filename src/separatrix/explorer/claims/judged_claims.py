"""The claims of the tab Claims with their verdicts, which are recomputed whenever the store has changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from threading import Lock

from separatrix import studies
from separatrix.claims import PAPERS, ledger
from separatrix.claims.counts import count
from separatrix.claims.formulas import readable
from separatrix.claims.ledger import Claim, Verdict
from separatrix.claims.verdicts import Judgement, cell_result, judge, or_recorded, records
from separatrix.errors import ArgumentError
from separatrix.explorer.fields import choice, words
from separatrix.lab.faults import plainly
from separatrix.lab.store import Store, has_store
from separatrix.report.claim_parts import called
from separatrix.report.theme import Drawing

PAPER = choice(
    "paper",
    "Paper",
    "Only the claims of one paper, or of the studies beyond the papers.",
    "",
    {"all": "all", **{name: name for name in PAPERS}},
    default="all",
    shared=True,
)
VERDICT = choice(
    "verdict",
    "Verdict",
    "Only the claims with this verdict.",
    "",
    {"all": "all", **{verdict.value: verdict.value for verdict in Verdict}},
    default="all",
    shared=True,
)
TEXT = words("text", "Text", "Only the claims whose id, place or statement has all of these words.")
CLAIM = words("claim", "Claim", "The id of the claim that is shown.")
FIELDS = (PAPER, VERDICT, TEXT, CLAIM)


class Shelf:
    """The verdicts of the claims from the results of a store, cached until the store changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._known: tuple[object, list[Judgement]] | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a store; a `SeparatrixError` if the folder cannot be read."""
        return has_store(self._folder)

    def judgements(self) -> list[Judgement]:
        """Every claim with its verdict from the store, or its recorded verdict if it was not rerun. No cell is run."""
        studies.load()
        with self._lock:
            stamp = self._stamp()
            if self._known is None or self._known[0] != stamp:
                recorded = records()
                with Store.open(self._folder) if self.exists else nullcontext() as store:
                    self._known = stamp, [or_recorded(judge(claim, store), recorded) for claim in ledger.claims()]
            return self._known[1]

    def judgement(self, id: str) -> Judgement:
        """Return a claim with its verdict by its id."""
        for judgement in self.judgements():
            if judgement.claim.id == id:
                return judgement
        raise ArgumentError("claim", expected="the id of a claim in the list", got=repr(id))

    def drawings(self, claim: Claim) -> list[tuple[str, Drawing]]:
        """Draw the figures of a claim, by name; all of its cells must be done."""
        if not claim.figures or not self.exists:
            return []
        from separatrix.report.figures import draw

        with Store.open(self._folder) as store:
            results = []
            for cell, record in store.find(claim.cells()):
                if record is None or record.status != "done":
                    return []
                results.append(cell_result(store, cell, record))
        return [(name, draw(name, results)) for name in claim.figures]

    def _stamp(self) -> object:
        """A value that changes when the store does: SQLite writes one of these two files."""
        return [_stat(self._folder / name) for name in ("store.sqlite", "store.sqlite-wal")]


def _stat(path: Path) -> tuple[int, int] | None:
    with plainly(path):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)
def shelf_of(folder: Path) -> Shelf:
    """The `Shelf` of a folder of results, which all requests share."""
    return Shelf(folder)


def chosen(judgements: Sequence[Judgement], paper: str, verdict: str, text: str) -> list[Judgement]:
    """The claims that match the filter."""
    wanted = text.casefold().split()

    def fits(judgement: Judgement) -> bool:
        claim = judgement.claim
        text = f"{claim.id} {called(claim)} {claim.says} {readable(claim.says)}".casefold()
        return (
            paper in ("all", judgement.claim.paper)
            and verdict in ("all", judgement.verdict.value)
            and all(word in text for word in wanted)
        )

    return [judgement for judgement in judgements if fits(judgement)]


def counted(judgements: Sequence[Judgement]) -> str:
    """The numbers of claims by verdict, and how many of them were rerun in this folder."""
    if not judgements:
        return "No claim matches."
    rerun = sum(judgement.rerun for judgement in judgements)
    counts = count((judgement.claim, judgement.verdict) for judgement in judgements)
    return f"{counts} Rerun in this folder: {rerun:,} of {len(judgements):,}."
