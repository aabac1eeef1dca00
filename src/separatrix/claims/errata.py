"""The errata of the papers, each slip once with all of its places, and the fifteen most important ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from separatrix.claims.ledger import Claim, Erratum, Rank, claims

FIRST: Sequence[tuple[str, str]] = (
    ("selection/lemma-a.3", "overlap outside the subset"),
    ("selection/theorem-3.3", "a valid encoding with overlaps above 1 keeps the loss above epsilon"),
    ("selection/corollary-3.6", "the ratio grows with T_1"),
    ("kronecker/theorem-4.5", "a false proof is accepted with probability above 1/2 at a distance from 0.01 to 1/2"),
    ("separation/theorem-e.4", "each of the two settings breaks one of the hypotheses"),
    ("separation/theorem-6.2", "at a_1 = sqrt(n) and c = 0.8 a quarter of the sign vectors fire on D1"),
    ("kronecker/lemma-d.6", "other D and D~ exceed the bound"),
    ("kronecker/corollary-d.2", "the printed degree is undefined or a hundred times too large"),
    ("kronecker/lemma-b.1/threshold", "the printed threshold does not decide at every beta"),
    ("kronecker/lemma-b.1/constants", "with the printed C_a, t tilde is below eps_a"),
    ("selection/theorem-e.6/proof", "power of T on the plateau"),
    ("selection/theorem-c.3/proof", "width of the encodings"),
    ("selection/theorem-d.4/proof", "lower bound in Phase II"),
    ("selection/section-3.1/tail", "rate of s_+"),
    ("selection/appendix-f/restricted-isometry", "delta is at least 1/2 at every threshold"),
)
"""The most important errata, each by the id of a claim and the name of the evidence there."""


@dataclass(frozen=True)
class Slip:
    """A misprint with all of its places: the claims at which the paper has it, and what is printed and right there.

    The places come in the order of the paper.
    """

    places: tuple[tuple[Claim, Erratum], ...]

    @property
    def name(self) -> tuple[str, str]:
        """A unique key: the id of the claim at the first place, and the name of the evidence there."""
        return self.claim.id, self.places[0][1].shown_by

    @property
    def claim(self) -> Claim:
        """The claim at the first place."""
        return self.places[0][0]

    @property
    def rank(self) -> Rank:
        """The rank of the errata of this slip, which is the same at every place."""
        return self.places[0][1].rank


def slips(paper: str | None = None) -> list[Slip]:
    """The errata of the registered claims, or of one paper's: each slip once, however often the paper repeats it.

    They come in the order of the claims.
    """
    return slips_of(claims(paper))


def slips_of(some: Iterable[Claim]) -> list[Slip]:
    """The errata of some claims, each slip once, in the order of the claims."""
    places_by_slip: dict[tuple[str, ...], list[tuple[Claim, Erratum]]] = {}
    for claim in some:
        for erratum in claim.errata:
            places_by_slip.setdefault(_identity(claim, erratum), []).append((claim, erratum))
    return [Slip(tuple(places)) for places in places_by_slip.values()]


def _identity(claim: Claim, erratum: Erratum) -> tuple[str, ...]:
    return (claim.paper, erratum.slip) if erratum.slip else (claim.paper, erratum.printed, erratum.right)


def first_slips() -> list[Slip]:
    """The most important errata of all papers, in the order of `FIRST`; their claims must be registered."""
    known: dict[tuple[str, str], Slip] = {}
    for slip in slips():
        for claim, erratum in slip.places:
            known[claim.id, erratum.shown_by] = slip
    return [known[name] for name in FIRST]
