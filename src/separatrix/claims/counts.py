"""The numbers of claims by profile and verdict, as every page and command reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from separatrix.claims.ledger import Claim, Verdict, claims
from separatrix.claims.verdicts import expected


@dataclass(frozen=True)
class Count:
    """The numbers of claims of the quick profile, of the full profile, and of each verdict.

    >>> print(Count(3, 1, {Verdict.HOLDS: 2, Verdict.UNDECIDED: 1, Verdict.NOT_RUN: 1}))
    4 claims, 3 of them quick and 1 full: 2 hold, 1 is undecided, 1 is not run here.
    """

    quick: int
    full: int
    verdicts: Mapping[Verdict, int]

    @property
    def claims(self) -> int:
        """The number of claims."""
        return self.quick + self.full

    @property
    def summary(self) -> str:
        """The number of claims of each verdict, in words.

        >>> Count(2, 0, {Verdict.HOLDS: 1, Verdict.FAILS_AS_PRINTED: 1}).summary
        '1 holds, 1 fails as printed'
        """
        number = self.verdicts
        return ", ".join(
            f"{number[verdict]:,} {_clause(verdict, number[verdict])}" for verdict in Verdict if number.get(verdict)
        )

    def __str__(self) -> str:
        if not self.claims:
            return "No claims."
        if self.claims == 1:
            return f"1 claim, {'quick' if self.quick else 'full'}: {self.summary}."
        kinds = f"{self.quick:,} of them quick and {self.full:,} full"
        if not (self.quick and self.full):
            kinds = f"all {'quick' if self.quick else 'full'}"
        return f"{self.claims:,} claims, {kinds}: {self.summary}."


def count(judged: Iterable[tuple[Claim, Verdict]]) -> Count:
    """Count claims by profile and verdict."""
    pairs = list(judged)
    quick = sum(claim.profile == "quick" for claim, _ in pairs)
    return Count(quick, len(pairs) - quick, Counter(verdict for _, verdict in pairs))


def count_recorded(paper: str | None = None) -> Count:
    """Count the registered claims, or those of one paper, by their recorded verdicts."""
    recorded = expected()
    return count((claim, recorded.get(claim.id, Verdict.NOT_RUN)) for claim in claims(paper))


def _clause(verdict: Verdict, number: int) -> str:
    """A verdict as a clause about one claim or several."""
    verb, _, rest = verdict.partition(" ")
    if verb in ("holds", "fails"):
        return f"{verb if number == 1 else verb[:-1]} {rest}".rstrip()
    return f"{'is' if number == 1 else 'are'} {verdict}"
