"""How many claims there are, of which profile and with which verdict: what every page and command says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from separatrix.claims.ledger import Claim, Verdict, claims
from separatrix.claims.verdicts import expected


@dataclass(frozen=True)
class Count:
    """How many claims a quick run covers, how many only a full one, and how many have which verdict.

    >>> print(Count(3, 1, {Verdict.HOLDS: 2, Verdict.UNDECIDED: 1, Verdict.NOT_RUN: 1}))
    4 claims, 3 of them quick and 1 full: 2 hold, 1 is undecided, 1 is not run here.
    """

    quick: int
    full: int
    verdicts: Mapping[Verdict, int]

    @property
    def claims(self) -> int:
        """How many there are."""
        return self.quick + self.full

    @property
    def told(self) -> str:
        """How many have which verdict, in words.

        >>> Count(2, 0, {Verdict.HOLDS: 1, Verdict.FAILS_AS_PRINTED: 1}).told
        '1 holds, 1 fails as printed'
        """
        number = self.verdicts
        return ", ".join(f"{number[one]:,} {_clause(one, number[one])}" for one in Verdict if number.get(one))

    def __str__(self) -> str:
        if not self.claims:
            return "No claims."
        if self.claims == 1:
            return f"1 claim, {'quick' if self.quick else 'full'}: {self.told}."
        kinds = f"{self.quick:,} of them quick and {self.full:,} full"
        if not (self.quick and self.full):
            kinds = f"all {'quick' if self.quick else 'full'}"
        return f"{self.claims:,} claims, {kinds}: {self.told}."


def count(judged: Iterable[tuple[Claim, Verdict]]) -> Count:
    """The count of some claims with their verdicts; every one of them is counted."""
    pairs = list(judged)
    quick = sum(claim.profile == "quick" for claim, _ in pairs)
    return Count(quick, len(pairs) - quick, Counter(verdict for _, verdict in pairs))


def count_recorded(paper: str | None = None) -> Count:
    """The count of the registered claims, or of one paper's, with the verdicts that are recorded of them."""
    recorded = expected()
    return count((one, recorded.get(one.id, Verdict.NOT_RUN)) for one in claims(paper))


def _clause(verdict: Verdict, number: int) -> str:
    """A verdict as what one claim does, or several do."""
    verb, _, rest = verdict.partition(" ")
    if verb in ("holds", "fails"):
        return f"{verb if number == 1 else verb[:-1]} {rest}".rstrip()
    return f"{'is' if number == 1 else 'are'} {verdict}"
