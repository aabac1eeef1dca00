"""A page for the authors of each paper, from the ledger: what holds, what was corrected, what was not reproduced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docs._ext.errata_pages import called, command, misprints, place_of, text_slip_list, wordings
from docs._ext.markdown import marked, plain
from separatrix.claims import PAPERS
from separatrix.claims.counts import count_recorded
from separatrix.claims.errata import Slip, first_slips, slips
from separatrix.claims.ledger import MEANINGS, Claim, Rank, Verdict, claims
from separatrix.claims.verdicts import Recorded, records
from separatrix.studies import load

_OPEN = (Verdict.FAILS_AS_PRINTED, Verdict.NOT_REPRODUCED, Verdict.UNDECIDED, Verdict.NOT_RUN)
_HEADINGS = {
    Rank.STATEMENT: "Errata that change a statement",
    Rank.PROOF: "Errata that repair a proof",
    Rank.TYPOGRAPHICAL: "Typographical errata",
}


def authors_summary(paper: str) -> str:
    """The first lines of the page: the version that was read, and the numbers of claims and errata."""
    load()
    about, errata, counted = PAPERS[paper], slips(paper), count_recorded(paper)
    listed, recorded = claims(paper), records()
    undecided = [claim for claim in listed if recorded[claim.id].verdict in _OPEN]
    stands = "Once they are corrected, every statement that a program can decide holds."
    if undecided:
        names = ", ".join(f"{called(claim)} ({recorded[claim.id].verdict})" for claim in undecided)
        stands = f"Once they are corrected, every statement that a program can decide holds, except: {names}."
    return "\n".join(
        [
            f"**The paper.** {plain(about.authors)}, *{plain(about.title)}*; {plain(about.version)}.",
            "",
            f"**What was checked.** {counted.claims} claims: {counted.summary}.",
            "",
            f"**What we would correct.** {len(errata)} misprints, each counted once, however often the paper repeats "
            f"it: {misprints(errata)}. {plain(stands)}",
            "",
            f"**To see all of it,** run `separatrix reproduce --profile full --paper {paper}`; each entry below "
            "has its own command.",
            "",
        ]
    )


def authors_errata(paper: str) -> str:
    """The errata of a paper by rank, the most important first within their rank."""
    load()
    first = [slip for slip in first_slips() if slip.claim.paper == paper]
    lines: list[str] = []
    for rank in Rank:
        errata = [slip for slip in slips(paper) if slip.rank is rank]
        errata.sort(key=lambda slip: first.index(slip) if slip in first else len(first))
        lines += [f"## {_HEADINGS[rank]}", "", *(_entries(errata) or ["Nothing.", ""])]
    return "\n".join([*lines, "## Slips that no program shows", "", text_slip_list(paper), ""])


def _entries(errata: Sequence[Slip]) -> list[str]:
    lines = []
    for number, slip in enumerate(errata, 1):
        seen = f"To see it: `{command(claim for claim, _ in slip.places)}`"
        lines += [f"### {number}. {plain(place_of(slip))}", "", *wordings(slip), seen, ""]
    return lines


def authors_findings(paper: str) -> str:
    """The results that were not reproduced, the claims that hold, and the claims that no program decides."""
    load()
    recorded = records()
    listed = claims(paper)
    lines = ["## Claims that fail, are undecided or were not reproduced", ""]
    undecided = [claim for claim in listed if recorded[claim.id].verdict in _OPEN]
    lines += [line for claim in undecided for line in _open(claim, recorded[claim.id])] or ["Nothing.", ""]
    chosen = [claim for claim in listed if claim.chosen and claim not in undecided]
    if chosen:
        lines += ["## Settings that we chose where the paper prints none", ""]
        lines += [*_shared((claim, setting) for claim in chosen for setting in claim.chosen), ""]
    changed = [claim for claim in listed if claim.history]
    if changed:
        lines += ["## Rules of our checks that were changed after results had been seen", ""]
        lines += [*_shared((claim, rule) for claim in changed for rule in claim.history), ""]
    lines += ["## What holds", ""]
    for verdict in Verdict:
        group = [claim for claim in listed if recorded[claim.id].verdict is verdict and verdict not in _OPEN]
        if group:
            lines += ["## What no program can decide", ""] if verdict is Verdict.ILLUSTRATED else []
            lines += [f"**{verdict}** ({len(group)}). {MEANINGS[verdict]}", ""]
            lines += [f"- {plain(called(claim))}: {marked(claim.says)}" for claim in group]
            lines += [""]
    return "\n".join(lines)


def _shared(pairs: Iterable[tuple[Claim, str]]) -> list[str]:
    """A line for each text, with the names of the claims that share it."""
    places: dict[str, list[str]] = {}
    for claim, text in pairs:
        places.setdefault(text, []).append(called(claim))
    return [f"- {marked(text)} ({plain('; '.join(names))})" for text, names in places.items()]


def _open(claim: Claim, record: Recorded) -> list[str]:
    lines = [f"### {plain(called(claim))}: {record.verdict}{plain(record.suffix)}", "", marked(claim.says), ""]
    for erratum in claim.errata:
        lines += [f"What we found instead: {marked(erratum.right)} {marked(erratum.why)}", ""]
    if claim.chosen:
        lines += ["The settings that the paper does not print, and the values that we chose:", ""]
        lines += [*(f"- {marked(setting)}" for setting in claim.chosen), ""]
    return [*lines, f"To see it: `{claim.command}`", ""]
