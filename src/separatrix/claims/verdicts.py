"""Judging claims from the store, and comparing the verdicts with the recorded ones."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from separatrix.claims.ledger import Claim, Finding, Found, Profile, Verdict
from separatrix.errors import ArgumentError
from separatrix.lab import tomlfile
from separatrix.lab.cell import Cell
from separatrix.lab.faults import DamagedError
from separatrix.lab.rows import Record
from separatrix.lab.store import Store

EXPECTED = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Judgement:
    """A claim and what was found. `seconds` is what its cells took, whenever they ran; `keys` are theirs.

    `missing` cells were never run, or are damaged, which counts as much; `failed` ones were in vain: with either the
    verdict is `undecided`. `problem` is the traceback of a check that broke.
    """

    claim: Claim
    finding: Finding
    keys: tuple[str, ...]
    seconds: float
    missing: int = 0
    failed: int = 0
    problem: str | None = None

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
    records = [(cell, None) for cell in cells] if store is None else list(store.find(cells))
    keys = tuple(cell.key for cell in cells)
    seconds = sum(record.seconds or 0.0 for _, record in records if record)
    counted = Counter(_status(record) for _, record in records)
    found: list[Found] = []
    if store is not None and counted["done"] == len(cells):
        for cell, record in records:
            try:
                found += [replace(found_in(store, cell, record), seconds=None)] if record else []
            except DamagedError:  # of an array
                counted["damaged"] += 1
    if len(found) < len(cells):
        note = f"Of {len(cells):,} cells, {_told(counted)}."
        missing = counted["not run"] + counted["damaged"]
        return Judgement(claim, Finding(Verdict.UNDECIDED, note=note), keys, seconds, missing, counted["failed"])
    try:
        finding = claim.judged(found)
    except Exception:
        note = "Its check broke."
        return Judgement(claim, Finding(Verdict.UNDECIDED, note=note), keys, seconds, problem=traceback.format_exc())
    return Judgement(claim, finding, keys, seconds)


def recalled(claim: Claim, recorded: Mapping[str, Verdict]) -> Judgement:
    """The recorded verdict on a claim, where nothing has been run; undecided if none is recorded."""
    if claim.id not in recorded:
        note = "No verdict is recorded, and nothing has been run here."
        return Judgement(claim, Finding(Verdict.UNDECIDED, note=note), (), 0.0)
    note = f"This verdict is recorded; nothing has been run here. To run it: {claim.command}"
    return Judgement(claim, Finding(recorded[claim.id], note=note), (), 0.0)


def found_in(store: Store, cell: Cell, record: Record) -> Found:
    """What came out of a cell that is done, read from the store; a damaged array is a `DamagedError`."""
    return Found(cell.arguments, cell.seed, store.result(record), record.seconds)


def _status(record: Record | None) -> str:
    """The status of a cell, ``not run`` also while a run is at it."""
    return "not run" if record is None or record.status == "running" else record.status


def _told(counted: Counter[str]) -> str:
    """How many cells do not bear on a claim, and why."""
    words = {"not run": ("has not been run", "have not been run"), "failed": ("failed", "failed")}
    words["damaged"] = ("is damaged and counts as not run", "are damaged and count as not run")
    return " and ".join(f"{counted[how]:,} {words[how][counted[how] > 1]}" for how in words if counted[how])


def expected(path: Path = EXPECTED) -> dict[str, Verdict]:
    """The recorded verdicts by id: one table a paper, in it the rest of the id and the verdict.

    ``[kronecker]`` with ``"lemma-c.3" = "holds"`` records the claim ``kronecker/lemma-c.3``.
    """
    recorded: dict[str, Verdict] = {}
    for paper, table in tomlfile.load(path).items():
        if not isinstance(table, dict):
            raise ArgumentError(f"{path}: {paper}", expected="a table of verdicts", got=table)
        for rest, verdict in table.items():
            if verdict not in list(Verdict):
                raise ArgumentError(f'{path}: {paper}."{rest}"', expected=" or ".join(Verdict), got=verdict)
            recorded[f"{paper}/{rest}"] = Verdict(verdict)
    return recorded


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
