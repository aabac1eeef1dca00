"""The errata as Markdown, from the ledger: the fifteen that matter first, then those of each paper by their rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from docs._ext.markdown import marked, plain, slug
from separatrix.claims import PAPERS
from separatrix.claims.counts import count_recorded
from separatrix.claims.errata import Slip, first_slips, slips
from separatrix.claims.ledger import RANKS, Claim, Rank, Verdict
from separatrix.claims.verdicts import expected
from separatrix.lab.wording import many
from separatrix.studies import load

PAPERS_ORDER = ("kronecker", "separation", "selection")
"""The papers in the order in which the page of the errata has them."""


def errata_counts() -> str:
    """How many errata there are, by paper and by rank, and what the ranks mean."""
    load()
    rows = ["| | " + " | ".join(Rank) + " | all |", "| --- | " + "--- | " * (len(Rank) + 1)]
    for title, found in [*((PAPERS[paper].title, slips(paper)) for paper in PAPERS_ORDER), ("all", slips())]:
        number = Counter(slip.rank for slip in found)
        rows.append(f"| {plain(title)} | {' | '.join(str(number[rank]) for rank in Rank)} | {len(found)} |")
    meanings = [f"- *{rank}*: {meaning}" for rank, meaning in RANKS.items()]
    return "\n".join([*(row.rstrip() for row in rows), "", *meanings, ""])


def first_errata() -> str:
    """The errata that matter first, of all papers, in their order."""
    load()
    first = first_slips()
    return "\n".join(line for slip in first for line in _numbered(slip, of_paper=True))


def errata_list(paper: str) -> str:
    """The other errata of a paper, by rank: what is printed, what is right, why, and how to see it."""
    load()
    first = first_slips()
    lines = [
        f"The list of the fifteen has {many(sum(one.claim.paper == paper for one in first), 'erratum', 'errata')} "
        "of this paper.",
        "",
    ]
    for rank in Rank:
        found = [slip for slip in slips(paper) if slip.rank is rank and slip not in first]
        if found:
            lines += [f"### {_capital(rank)}", "", *(line for slip in found for line in _numbered(slip))]
    return "\n".join(lines)


def anchors() -> dict[str, tuple[str, ...]]:
    """The anchors of a claim's errata on their page, by its id."""
    load()
    found: dict[str, tuple[str, ...]] = {}
    for slip in sorted(slips(), key=lambda slip: _numbers()[slip.name]):
        for id in dict.fromkeys(claim.id for claim, _ in slip.places):
            found[id] = (*found.get(id, ()), slug(_heading(slip)))
    return found


@cache
def _numbers() -> dict[tuple[str, str], int]:
    """The number that every erratum has on the page, by its name: those that matter first, then by paper and rank."""
    load()
    first = first_slips()
    rest = [
        slip
        for paper in PAPERS_ORDER
        for rank in Rank
        for slip in slips(paper)
        if slip.rank is rank and slip not in first
    ]
    return {slip.name: number for number, slip in enumerate([*first, *rest], 1)}


def _heading(slip: Slip) -> str:
    return f"{_numbers()[slip.name]}. {place_of(slip)}"


def place_of(slip: Slip) -> str:
    """Where a paper has an erratum: the first of its places, and how many there are more."""
    names = list(dict.fromkeys(erratum.at or called(claim) for claim, erratum in slip.places))
    more = len(names) - 1
    return f"{names[0]}{f' and {more} other place' + 's' * (more > 1) if more else ''}"


def called(one: Claim) -> str:
    """The name of a claim: its place in the paper, and the part of what is said there."""
    part = one.id.split("/")[2:]
    return f"{one.where}, {part[0].replace('-', ' ')}" if part else one.where


def _numbered(slip: Slip, *, of_paper: bool = False) -> list[str]:
    level = "###" if of_paper else "####"
    recorded = expected()
    verdicts = dict.fromkeys(recorded.get(claim.id, Verdict.NOT_RUN).value for claim, _ in slip.places)
    whose = f"*{plain(PAPERS[slip.claim.paper].title)}*: {slip.rank}." if of_paper else ""
    return [
        f"{level} {plain(_heading(slip))}",
        "",
        *([whose, ""] if whose else []),
        *wordings(slip),
        f"Verdict: **{'**, **'.join(verdicts)}**. To see it: `{command(claim for claim, _ in slip.places)}`",
        "",
    ]


def wordings(slip: Slip) -> list[str]:
    """What is printed, what is right and why; where its places differ in that, each with its place."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for claim, erratum in slip.places:
        found.setdefault((erratum.printed, erratum.right, erratum.why), []).append(erratum.at or called(claim))
    lines = []
    for (printed, right, why), places in found.items():
        where = f"  *In:* {plain(', '.join(dict.fromkeys(places)))}\\" if len(slip.places) > 1 else None
        said = [f"  *Printed:* {marked(printed)}\\", f"  *Right:* {marked(right)}\\", f"  *Why:* {marked(why)}"]
        block = [where, *said] if where else said
        lines += [f"- {block[0].lstrip()}", *block[1:], ""]
    return lines


def command(claims: Iterable[Claim]) -> str:
    """The command that does some claims again."""
    profiles = {one.id: one.profile for one in claims}
    profile = "full" if "full" in profiles.values() else "quick"
    return f"separatrix reproduce --profile {profile} " + " ".join(f"--only {id}" for id in profiles)


def ledger_counts() -> str:
    """How many claims there are, of which kinds, and how many errata of which ranks, as a paragraph."""
    load()
    count = count_recorded()
    defined, illustrated = (count.verdicts.get(verdict, 0) for verdict in (Verdict.DEFINED, Verdict.ILLUSTRATED))
    return (
        f"- **The papers, checked.** The ledger has {count.claims} claims of three papers and of studies beyond them: "
        f"{defined} are definitions, which the library implements, {illustrated} can only be illustrated, and "
        f"{count.claims - defined - illustrated} are checked by programs that can fail. Of {len(slips())} "
        f"[errata](docs/errata.md), {misprints(slips())}. `make reproduce` reruns the {count.quick} quick claims in "
        f"some minutes; `separatrix reproduce --profile full` reruns the other {count.full}, too.\n"
    )


def misprints(found: Sequence[Slip]) -> str:
    """How many errata there are of each rank, in words."""
    number = Counter(slip.rank for slip in found)
    said = [f"{number[rank]} {'change' if number[rank] != 1 else 'changes'} a statement" for rank in [Rank.STATEMENT]]
    said += [f"{number[Rank.PROOF]} {'repair' if number[Rank.PROOF] != 1 else 'repairs'} a proof"]
    said += [f"{number[Rank.TYPOGRAPHICAL]} {'are' if number[Rank.TYPOGRAPHICAL] != 1 else 'is'} typographical"]
    return ", ".join(said)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
