"""Reproduce the papers: run the missing cells of the claims, and judge every claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from separatrix.claims.ledger import Claim, Profile
from separatrix.claims.verdicts import Judgement, judge
from separatrix.lab.cell import Cell
from separatrix.lab.driver import run
from separatrix.lab.executors import Crew
from separatrix.lab.progress import Progress, Tally
from separatrix.lab.store import Store


@dataclass(frozen=True)
class Reproduction:
    """The numbers of cells that ran, and the verdicts."""

    tally: Tally
    judgements: tuple[Judgement, ...]


def needed(claims: Sequence[Claim], profile: Profile) -> list[Cell]:
    """The cells that a profile runs for these claims, each once."""

    def all_of_them() -> Iterator[Cell]:
        for claim in claims:
            if profile == "full" or claim.profile == "quick":
                yield from claim.cells()

    return list(dict.fromkeys(all_of_them()))


def reproduce(
    claims: Sequence[Claim],
    store: Store,
    crew: Crew,
    *,
    profile: Profile,
    progress: Progress | None = None,
    retry_failed: bool = False,
    cost: Callable[[Cell], float] = lambda cell: 1.0,
) -> Reproduction:
    """Run the missing cells of the claims that the profile covers, then judge all of these claims.

    A claim beyond the profile is judged too, if the store has all of its cells from an earlier run. `cost` estimates
    the cost of a cell, by which `progress` weighs it.
    """
    tally = run(store, needed(claims, profile), crew, progress=progress, retry_failed=retry_failed, cost=cost)
    return Reproduction(tally, tuple(judge(claim, store) for claim in claims))
