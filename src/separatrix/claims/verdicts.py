"""Judging claims from the store, and comparing the verdicts with the recorded ones."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from separatrix import __version__
from separatrix.claims.ledger import Claim, Finding, Found, Profile, Verdict
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
    """A claim and what was found. `seconds` is what its cells took, whenever they ran; `keys` are theirs.

    `missing` cells were never run, or are damaged, which counts as much: with one of them the verdict is `not run
    here`. `failed` ones were in vain: with one of them it is `undecided`. `problem` is the traceback of a check that
    broke. `rerun` is False where the verdict is the recorded one and not that of cells in the store.
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
    """The verdict on a claim from what the store has; no store is an empty one. Nothing is run."""
    try:
        cells = list(claim.cells())
        if not cells:
            raise TypeError(f"claim {claim.id} declares no cells: it could not be wrong")
    except Exception:
        note = "Its cells cannot be made."
        return Judgement(claim, Finding(Verdict.UNDECIDED, note=note), (), 0.0, problem=traceback.format_exc())
    rows = [(cell, None) for cell in cells] if store is None else list(store.find(cells))
    keys = tuple(cell.key for cell in cells)
    seconds = sum(record.seconds or 0.0 for _, record in rows if record)
    counted = Counter(_status(record) for _, record in rows)
    found: list[Found] = []
    if store is not None and counted["done"] == len(cells):
        for cell, record in rows:
            try:
                found += [replace(found_in(store, cell, record), seconds=None)] if record else []
            except DamagedError:  # of an array
                counted["damaged"] += 1
    if len(found) < len(cells):
        missing = counted["not run"] + counted["damaged"]
        verdict = Verdict.UNDECIDED if counted["failed"] else Verdict.NOT_RUN
        note = f"Of {many(len(cells), 'cell')}, {_told(counted)}."
        if verdict is Verdict.NOT_RUN:
            note = f"{note} {recall(claim.id, records())}"
        rerun = verdict is not Verdict.NOT_RUN
        return Judgement(claim, Finding(verdict, note=note), keys, seconds, missing, counted["failed"], rerun=rerun)
    try:
        finding = claim.judged(found)
    except Exception:
        note = "Its check broke."
        return Judgement(claim, Finding(Verdict.UNDECIDED, note=note), keys, seconds, problem=traceback.format_exc())
    return Judgement(claim, finding, keys, seconds)


def recalled(claim: Claim, recorded: Mapping[str, Recorded]) -> Judgement:
    """The recorded verdict on a claim, where nothing has been run; `not run here` if none is recorded."""
    note = "No verdict is recorded, and nothing has been run here."
    return or_recorded(Judgement(claim, Finding(Verdict.NOT_RUN, note=note), (), 0.0, rerun=False), recorded)


def or_recorded(judgement: Judgement, recorded: Mapping[str, Recorded]) -> Judgement:
    """Replace the verdict `not run here` by the recorded one, if there is one, and say that it was not rerun."""
    record = recorded.get(judgement.claim.id)
    if record is None or judgement.verdict is not Verdict.NOT_RUN:
        return judgement
    note = f"Recorded verdict{record.told or f' of version {__version__}'}; not rerun here."
    return replace(judgement, finding=Finding(record.verdict, note=note), rerun=False)


def recall(id: str, recorded: Mapping[str, Recorded]) -> str:
    """A sentence with the verdict that is recorded of a claim.

    >>> recall("kronecker/x", {"kronecker/x": Recorded(Verdict.HOLDS, date(2026, 11, 15))})
    'Recorded is: holds, found on 2026-11-15.'
    """
    if id not in recorded:
        return "No verdict is recorded."
    return f"Recorded is: {recorded[id].verdict}{recorded[id].told}."


def found_in(store: Store, cell: Cell, record: StoredRecord) -> Found:
    """What came out of a cell that is done, read from the store; a damaged array is a `DamagedError`."""
    return Found(cell.arguments, cell.seed, store.result(record), record.seconds)


def _status(record: StoredRecord | None) -> str:
    """The status of a cell, ``not run`` also while a run is at it."""
    return "not run" if record is None or record.status == "running" else record.status


def _told(counted: Counter[str]) -> str:
    """How many cells do not bear on a claim, and why."""
    words = {"not run": ("has not been run", "have not been run"), "failed": ("failed", "failed")}
    words["damaged"] = ("is damaged and counts as not run", "are damaged and count as not run")
    return " and ".join(f"{counted[how]:,} {words[how][counted[how] > 1]}" for how in words if counted[how])


@dataclass(frozen=True)
class Recorded:
    """The verdict that a claim had when a person last looked at it.

    `on` is the day, where it is kept; `why` the reason, where it is undecided.
    """

    verdict: Verdict
    on: date | None = None
    why: str = ""

    @property
    def told(self) -> str:
        """The reason and the day, to follow the verdict in a sentence.

        >>> Recorded(Verdict.UNDECIDED, date(2026, 11, 15), "one seed failed").told
        ' (one seed failed), found on 2026-11-15'
        """
        return (f" ({self.why})" if self.why else "") + (f", found on {self.on:%Y-%m-%d}" if self.on else "")


def records(path: Path = EXPECTED) -> dict[str, Recorded]:
    """What is recorded, by id: one table a paper, in it the rest of the id and the verdict, or a table with the day.

    ``[kronecker]`` with ``"lemma-c.3" = "holds"`` records the claim ``kronecker/lemma-c.3``, and so does
    ``"lemma-c.3" = { verdict = "holds", on = 2026-11-15 }``.
    """
    recorded: dict[str, Recorded] = {}
    for paper, table in tomlfile.load(path).items():
        if not isinstance(table, dict):
            raise ArgumentError(f"{path}: {paper}", expected="a table of verdicts", got=table)
        for rest, given in table.items():
            recorded[f"{paper}/{rest}"] = _recorded(f'{path}: {paper}."{rest}"', given)
    return recorded


def _recorded(name: str, given: object) -> Recorded:
    fields = given if isinstance(given, dict) else {"verdict": given}
    verdict, on, why = fields.get("verdict"), fields.get("on"), fields.get("why", "")
    known = [one for one in Verdict if one is not Verdict.NOT_RUN]
    if verdict not in known:
        raise ArgumentError(name, expected=" or ".join(known), got=verdict)
    if not (fields.keys() <= {"verdict", "on", "why"} and isinstance(why, str) and isinstance(on, date | None)):
        raise ArgumentError(name, expected="a verdict, on = a date, why = a text", got=given)
    return Recorded(Verdict(str(verdict)), on, why)


def expected(path: Path = EXPECTED) -> dict[str, Verdict]:
    """The recorded verdicts by id."""
    return {id: one.verdict for id, one in records(path).items()}


def difference(one: Judgement, recorded: Mapping[str, Verdict], profile: Profile) -> str | None:
    """How a verdict is not the recorded one; None if it is.

    A claim that needs the full profile is no difference in the quick one while its cells have not been run. Nor is one
    that was judged on other data than the recorded verdict is of.
    """
    record = recorded.get(one.claim.id)
    if one.problem:
        return f"{one.finding.note} {one.problem.splitlines()[-1]}"
    if record is None:
        return f"{one.verdict}, and no verdict is recorded."
    waits = one.missing and not one.failed and (profile, one.claim.profile) == ("quick", "full")
    if one.verdict == record or waits or not one.finding.comparable:
        return None
    return f"{one.verdict}, and {record} is recorded. {one.finding.note}".rstrip()


def differences(
    judgements: Sequence[Judgement], recorded: Mapping[str, Verdict], profile: Profile, *, everything: bool
) -> list[str]:
    """A sentence for each verdict that is not the recorded one.

    With `everything`, all claims were judged, and a record without a claim is a difference too.
    """
    differs = ((one.claim.id, difference(one, recorded, profile)) for one in judgements)
    told = [f"{id}: {how}" for id, how in differs if how]
    if everything:
        judged = {one.claim.id for one in judgements}
        told += [
            f"{id}: {record} is recorded, and there is no such claim."
            for id, record in recorded.items()
            if id not in judged
        ]
    return told
