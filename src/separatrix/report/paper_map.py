"""The map of the papers: a tile for every claim, in the colour of its verdict, with a link to it."""

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
    """The tiles of all claims: a block for each paper, with rows for the main text, the figures and each appendix."""
    blocks = [
        _block(paper, list(group)) for paper, group in groupby(entries, lambda entry: entry.judgement.claim.paper)
    ]
    return tag("div", *blocks, class_="maps", id="map")


def _block(paper: str, entries: Sequence[Entry]) -> Html:
    regions: dict[str, list[Html]] = {}
    for entry in entries:
        regions.setdefault(_region(entry.judgement.claim), []).append(_tile(entry))
    rows = [tag("div", tag("dt", region), tag("dd", *tiles)) for region, tiles in regions.items()]
    title = tag("h3", tag("a", PAPERS[paper].title, href=f"#{paper}"))
    return tag("div", title, tag("dl", *rows), class_="map")


def _region(claim: Claim) -> str:
    """The row of a claim: a part of its paper, or its subject if it is beyond the papers."""
    if claim.paper == "beyond":
        return claim.where
    kind, letter, _ = place(claim.where)
    return ("Text", "Figures", f"Appendix {letter}")[kind]


def _tile(entry: Entry) -> Html:
    judgement, claim = entry.judgement, entry.judgement.claim
    label = f"{called(claim)}: {judgement.verdict}"
    return tag(
        "a",
        tag("span", MARKS[judgement.verdict], aria_hidden="true"),
        f" {short_place(claim)}",
        href=f"#{claim.id}",
        class_=f"tile {css_class(judgement.verdict)}",
        title=label,
        aria_label=label,
    )


def short_place(claim: Claim) -> str:
    """The short name of a claim for its tile; if it is beyond the papers, without the subject, which the row shows."""
    where, _, part = called(claim).partition(": ")
    if claim.paper == "beyond":
        return part or where
    return " ".join([*_abbreviated(where), *([f"({_first_words(part)})"] if part else [])])


def _abbreviated(where: str) -> Iterator[str]:
    for word in where.split():
        yield _SHORT.get(word, word)


def _first_words(part: str) -> str:
    """The first words of a name, as many as fit in a tile.

    >>> _first_words("floor of fixed encodings"), _first_words("part 1")
    ('floor of fixed …', 'part 1')
    """
    cut = re.match(r".{1,16}(?= |$)", part)
    kept = cut.group() if cut else part[:16]
    return kept if kept == part else f"{kept} …"
