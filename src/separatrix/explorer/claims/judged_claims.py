"""The ledger as the tab Claims shows it: judged from the store once for each state of the store, and filtered."""

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
from separatrix.claims.verdicts import Judgement, found_in, judge, or_recorded, records
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
TEXT = words("text", "Text", "Only the claims that have all of these words in their place or their statement.")
CLAIM = words("claim", "Claim", "The claim that is open, by its id.")
FIELDS = (PAPER, VERDICT, TEXT, CLAIM)


class Shelf:
    """The judged claims of a store that others may write: judged again when the store has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._known: tuple[object, list[Judgement]] | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a store; an error if the folder cannot be looked into."""
        return has_store(self._folder)

    def judgements(self) -> list[Judgement]:
        """Every claim with the verdict of the store, or the recorded one where it was not rerun. Nothing is run."""
        studies.load()
        with self._lock:
            stamp = self._stamp()
            if self._known is None or self._known[0] != stamp:
                recorded = records()
                with Store.open(self._folder) if self.exists else nullcontext() as store:
                    self._known = stamp, [or_recorded(judge(claim, store), recorded) for claim in ledger.claims()]
            return self._known[1]

    def judgement(self, id: str) -> Judgement:
        """Give one claim with its verdict, by its id."""
        for one in self.judgements():
            if one.claim.id == id:
                return one
        raise ArgumentError("claim", expected="the id of a claim in the list", got=repr(id))

    def drawings(self, claim: Claim) -> list[tuple[str, Drawing]]:
        """The figures of a claim, drawn from what the store has of its cells, by name; all of them must be done."""
        if not claim.figures or not self.exists:
            return []
        from separatrix.report.figures import draw

        with Store.open(self._folder) as store:
            found = []
            for cell, record in store.find(claim.cells()):
                if record is None or record.status != "done":
                    return []
                found.append(found_in(store, cell, record))
        return [(name, draw(name, found)) for name in claim.figures]

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
    """The judged claims of a folder of results, the same for all who ask."""
    return Shelf(folder)


def chosen(judgements: Sequence[Judgement], paper: str, verdict: str, text: str) -> list[Judgement]:
    """Give the claims that the filter lets through."""
    wanted = text.casefold().split()

    def fits(one: Judgement) -> bool:
        told = f"{one.claim.id} {called(one.claim)} {one.claim.says} {readable(one.claim.says)}".casefold()
        return (
            paper in ("all", one.claim.paper)
            and verdict in ("all", one.verdict.value)
            and all(word in told for word in wanted)
        )

    return [one for one in judgements if fits(one)]


def counted(judgements: Sequence[Judgement]) -> str:
    """How many there are, of which verdicts, and how many of the verdicts were found in this folder of results."""
    if not judgements:
        return "No claim matches."
    rerun = sum(judgement.rerun for judgement in judgements)
    counts = count((judgement.claim, judgement.verdict) for judgement in judgements)
    return f"{counts} Rerun in this folder: {rerun:,} of {len(judgements):,}."
