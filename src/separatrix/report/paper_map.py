"""The map of the papers: a tile for every claim, at its place, in the colour of its verdict, which leads to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from separatrix.claims import PAPERS
from separatrix.claims.ledger import Claim, place
from separatrix.report.claim_parts import MARKS, called, css_class
from separatrix.report.evidence import Entry
from separatrix.report.markup import Html, tag

_SHORT = {
    "Theorem": "Thm",
    "Lemma": "Lem",
    "Definition": "Def",
    "Corollary": "Cor",
    "Section": "Sec",
    "Equation": "Eq",
    "Figure": "Fig",
    "Appendix": "App",
    "Hypothesis": "Hyp",
    "Conjecture": "Conj",
}


def paper_map(entries: Sequence[Entry]) -> Html:
    """Every claim as a tile: a block for each paper, and in it a row for the text, the figures and each appendix."""
    blocks = [_block(paper, list(group)) for paper, group in groupby(entries, lambda one: one.judgement.claim.paper)]
    return tag("div", *blocks, class_="maps", id="map")


def _block(paper: str, entries: Sequence[Entry]) -> Html:
    regions: dict[str, list[Html]] = {}
    for one in entries:
        regions.setdefault(_region(one.judgement.claim), []).append(_tile(one))
    rows = [tag("div", tag("dt", region), tag("dd", *tiles)) for region, tiles in regions.items()]
    title = tag("h3", tag("a", PAPERS[paper].title, href=f"#{paper}"))
    return tag("div", title, tag("dl", *rows), class_="map")


def _region(claim: Claim) -> str:
    """Where in its paper a claim stands; what is beyond the papers stands under its subject."""
    if claim.paper == "beyond":
        return claim.where
    kind, letter, _ = place(claim.where)
    return ("Text", "Figures", f"Appendix {letter}")[kind]


def _tile(entry: Entry) -> Html:
    one, claim = entry.judgement, entry.judgement.claim
    label = f"{called(claim)}: {one.verdict}"
    return tag(
        "a",
        tag("span", MARKS[one.verdict], aria_hidden="true"),
        f" {short_place(claim)}",
        href=f"#{claim.id}",
        class_=f"tile {css_class(one.verdict)}",
        title=label,
        aria_label=label,
    )


def short_place(claim: Claim) -> str:
    """Name a claim in a few characters, for a tile; beyond the papers by its part, for the row names its subject."""
    where, _, part = called(claim).partition(": ")
    if claim.paper == "beyond":
        return part or where
    return " ".join([*_abbreviated(where), *([f"({_first_words(part)})"] if part else [])])


def _abbreviated(where: str) -> Iterator[str]:
    for word in where.split():
        yield _SHORT.get(word, word)


def _first_words(part: str) -> str:
    """The first words of a part, as many as a tile has room for.

    >>> _first_words("floor of fixed encodings"), _first_words("part 1")
    ('floor of fixed …', 'part 1')
    """
    cut = re.match(r".{1,16}(?= |$)", part)
    kept = cut.group() if cut else part[:16]
    return kept if kept == part else f"{kept} …"
