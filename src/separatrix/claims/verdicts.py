"""Judging claims from the store, and comparing the verdicts with the recorded ones."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from separatrix import __version__
from separatrix.claims.ledger import CellResult, Claim, Finding, Profile, Verdict
from separatrix.errors import ArgumentError
from separatrix.lab import tomlfile
from separatrix.lab.cell import Cell
from separatrix.lab.faults import DamagedError
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store
from separatrix.lab.wording import many

EXPECTED = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Judgement:
    """A claim and the finding on it. `seconds` is the total running time of its cells, and `keys` are their keys.

    `missing` counts the cells that were not run or are damaged; with any of them the verdict is `not run here`.
    `failed` counts the cells that raised an error; with any of them the verdict is *undecided*. `problem` is the
    traceback of a check that raised an error. `rerun` is False where the verdict is the recorded one and not that of
    cells in the store.
    """

    claim: Claim
    finding: Finding
    keys: tuple[str, ...]
    seconds: float
    missing: int = 0
    failed: int = 0
    problem: str | None = None
    rerun: bool = True

    @property
    def verdict(self) -> Verdict:
        return self.finding.verdict


def judge(claim: Claim, store: Store | None) -> Judgement:
    """Judge a claim by the results in the store, without running any cell; None means an empty store."""
    try:
        cells = list(claim.cells())
        if not cells:
            raise TypeError(f"claim {claim.id} declares no cells: it could not be wrong")
    except Exception:
        note = "The cells of the claim cannot be created."
        return Judgement(claim, Finding(Verdict.UNDECIDED, note=note), (), 0.0, problem=traceback.format_exc())
    rows = [(cell, None) for cell in cells] if store is None else list(store.find(cells))
    keys = tuple(cell.key for cell in cells)
    seconds = sum(record.seconds or 0.0 for _, record in rows if record)
    counted = Counter(_status(record) for _, record in rows)
    results: list[CellResult] = []
    if store is not None and counted["done"] == len(cells):
        for cell, record in rows:
            try:
                results += [replace(cell_result(store, cell, record), seconds=None)] if record else []
            except DamagedError:  # an array is damaged
                counted["damaged"] += 1
    if len(results) < len(cells):
        missing = counted["not run"] + counted["damaged"]
        verdict = Verdict.UNDECIDED if counted["failed"] else Verdict.NOT_RUN
        note = f"Of {many(len(cells), 'cell')}, {_without_result(counted)}."
        if verdict is Verdict.NOT_RUN:
            note = f"{note} {recall(claim.id, records())}"
        rerun = verdict is not Verdict.NOT_RUN
        return Judgement(claim, Finding(verdict, note=note), keys, seconds, missing, counted["failed"], rerun=rerun)
    try:
        finding = claim.judged(results)
    except Exception:
        note = "The check raised an error."
        return Judgement(claim, Finding(Verdict.UNDECIDED, note=note), keys, seconds, problem=traceback.format_exc())
    return Judgement(claim, finding, keys, seconds)


def recalled(claim: Claim, recorded: Mapping[str, Recorded]) -> Judgement:
    """The recorded verdict on a claim whose cells have not been run here; `not run here` if none is recorded."""
    note = "No verdict is recorded, and nothing has been run here."
    return or_recorded(Judgement(claim, Finding(Verdict.NOT_RUN, note=note), (), 0.0, rerun=False), recorded)


def or_recorded(judgement: Judgement, recorded: Mapping[str, Recorded]) -> Judgement:
    """Replace the verdict `not run here` by the recorded one, if there is one, and say that it was not rerun."""
    record = recorded.get(judgement.claim.id)
    if record is None or judgement.verdict is not Verdict.NOT_RUN:
        return judgement
    note = f"Recorded verdict{record.suffix or f' of version {__version__}'}; not rerun here."
    return replace(judgement, finding=Finding(record.verdict, note=note), rerun=False)


def recall(id: str, recorded: Mapping[str, Recorded]) -> str:
    """A sentence with the recorded verdict of a claim.

    >>> recall("kronecker/x", {"kronecker/x": Recorded(Verdict.HOLDS, date(2026, 11, 15))})
    'The recorded verdict is: holds, found on 2026-11-15.'
    """
    if id not in recorded:
        return "No verdict is recorded."
    return f"The recorded verdict is: {recorded[id].verdict}{recorded[id].suffix}."


def cell_result(store: Store, cell: Cell, record: StoredRecord) -> CellResult:
    """The result of a finished cell, read from the store; a damaged array raises `DamagedError`."""
    return CellResult(cell.arguments, cell.seed, store.result(record), record.seconds)


def _status(record: StoredRecord | None) -> str:
    """The status of a cell; a cell that is running counts as ``not run``."""
    return "not run" if record is None or record.status == "running" else record.status


def _without_result(counted: Counter[str]) -> str:
    """The numbers of cells without a result, with the reason."""
    words = {"not run": ("has not been run", "have not been run"), "failed": ("failed", "failed")}
    words["damaged"] = ("is damaged and counts as not run", "are damaged and count as not run")
    return " and ".join(f"{counted[how]:,} {words[how][counted[how] > 1]}" for how in words if counted[how])


@dataclass(frozen=True)
class Recorded:
    """The recorded verdict of a claim, as last reviewed by a person.

    `on` is the date, if it is recorded; `why` is the reason of an undecided verdict.
    """

    verdict: Verdict
    on: date | None = None
    why: str = ""

    @property
    def suffix(self) -> str:
        """The reason and the date, as the end of a sentence that begins with the verdict.

        >>> Recorded(Verdict.UNDECIDED, date(2026, 11, 15), "one seed failed").suffix
        ' (one seed failed), found on 2026-11-15'
        """
        return (f" ({self.why})" if self.why else "") + (f", found on {self.on:%Y-%m-%d}" if self.on else "")


def records(path: Path = EXPECTED) -> dict[str, Recorded]:
    """The recorded verdicts by id.

    The file has a table for each paper, which maps the rest of the id to the verdict or to a table with the date.
    ``[kronecker]`` with ``"lemma-c.3" = "holds"`` records the claim ``kronecker/lemma-c.3``, and so does
    ``"lemma-c.3" = { verdict = "holds", on = 2026-11-15 }``.
    """
    recorded: dict[str, Recorded] = {}
    for paper, table in tomlfile.load(path).items():
        if not isinstance(table, dict):
            raise ArgumentError(f"{path}: {paper}", expected="a table of verdicts", got=table)
        for rest, value in table.items():
            recorded[f"{paper}/{rest}"] = _recorded(f'{path}: {paper}."{rest}"', value)
    return recorded


def _recorded(name: str, value: object) -> Recorded:
    fields = value if isinstance(value, dict) else {"verdict": value}
    verdict, on, why = fields.get("verdict"), fields.get("on"), fields.get("why", "")
    known = [verdict for verdict in Verdict if verdict is not Verdict.NOT_RUN]
    if verdict not in known:
        raise ArgumentError(name, expected=" or ".join(known), got=verdict)
    if not (fields.keys() <= {"verdict", "on", "why"} and isinstance(why, str) and isinstance(on, date | None)):
        raise ArgumentError(name, expected="a verdict, on = a date, why = a text", got=value)
    return Recorded(Verdict(str(verdict)), on, why)


def expected(path: Path = EXPECTED) -> dict[str, Verdict]:
    """The recorded verdicts by id."""
    return {id: record.verdict for id, record in records(path).items()}


def difference(judgement: Judgement, recorded: Mapping[str, Verdict], profile: Profile) -> str | None:
    """A description of how a verdict differs from the recorded one; None if it does not.

    Two kinds of claims are not compared: in the quick profile, claims of the full profile whose cells have not been
    run; and claims that were judged on other data than the recorded verdict.
    """
    record = recorded.get(judgement.claim.id)
    if judgement.problem:
        return f"{judgement.finding.note} {judgement.problem.splitlines()[-1]}"
    if record is None:
        return f"{judgement.verdict}, and no verdict is recorded."
    waits = judgement.missing and not judgement.failed and (profile, judgement.claim.profile) == ("quick", "full")
    if judgement.verdict == record or waits or not judgement.finding.comparable:
        return None
    return f"{judgement.verdict}, and {record} is recorded. {judgement.finding.note}".rstrip()


def differences(
    judgements: Sequence[Judgement], recorded: Mapping[str, Verdict], profile: Profile, *, everything: bool
) -> list[str]:
    """A sentence for each verdict that differs from the recorded one.

    With `everything`, all claims were judged, and a record without a claim is a difference too.
    """
    differs = ((judgement.claim.id, difference(judgement, recorded, profile)) for judgement in judgements)
    sentences = [f"{id}: {how}" for id, how in differs if how]
    if everything:
        judged = {judgement.claim.id for judgement in judgements}
        sentences += [
            f"{id}: {record} is recorded, and there is no such claim."
            for id, record in recorded.items()
            if id not in judged
        ]
    return sentences
