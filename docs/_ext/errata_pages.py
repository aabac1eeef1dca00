"""The errata as Markdown, from the ledger: the fifteen most important ones, then those of each paper by rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from docs._ext.markdown import marked, plain, slug
from separatrix.claims import PAPERS
from separatrix.claims.counts import count_recorded
from separatrix.claims.errata import Slip, first_slips, slips
from separatrix.claims.ledger import RANKS, Claim, Rank, Verdict
from separatrix.claims.readings import overlap, second_overlap, text_slips, unseen
from separatrix.claims.verdicts import expected
from separatrix.lab.wording import many
from separatrix.studies import load

PAPERS_ORDER = ("kronecker", "separation", "selection")
"""The papers in the order of the errata page."""
_SUBJECTS = {
    "kronecker": "Attention of higher order",
    "separation": "Softmax against linear attention",
    "selection": "Sparse token selection",
}
"""The papers as the headings of the page name them."""


def errata_counts() -> str:
    """The number of errata by paper and by rank, and the meaning of the ranks."""
    load()
    rows = ["| paper | " + " | ".join(Rank) + " | all |", "| --- | " + "---: | " * (len(Rank) + 1)]
    for subject, errata in [*((_SUBJECTS[paper], slips(paper)) for paper in PAPERS_ORDER), ("all", slips())]:
        number = Counter(slip.rank for slip in errata)
        rows.append(f"| {subject} | {' | '.join(str(number[rank]) for rank in Rank)} | {len(errata)} |")
    meanings = [f"- *{rank}*: {meaning}" for rank, meaning in RANKS.items()]
    return "\n".join([*(row.rstrip() for row in rows), "", *meanings, ""])


def errata_left() -> str:
    """The number of slips that are in neither of two independent lists, by paper."""
    load()
    headings = ("| paper | errata | first reading", "| paper | errata and first reading | second reading")
    tables = []
    for heading, lists_of in zip(headings, (overlap, second_overlap), strict=True):
        rows = [f"{heading} | both | either | estimate of the slips in neither |", "| --- " + "| ---: " * 5 + "|"]
        for subject, paper in [*((_SUBJECTS[paper], paper) for paper in PAPERS_ORDER), ("all", None)]:
            lists = lists_of(paper)
            left = unseen(lists)
            interval = f" ({left.low:.1f} to {left.high:.1f})" if left.high else ""
            counts = " | ".join(map(str, (lists.first, lists.second, lists.both, lists.either)))
            rows.append(f"| {subject} | {counts} | {left.value:.1f}{interval} |")
        tables.append("\n".join([*rows, ""]))
    first, second, text_only = overlap(), second_overlap(), text_slips()
    added = first.second - first.both - sum(1 in slip.readings for slip in text_only)
    known_before = len(slips()) + sum(1 in slip.readings for slip in text_only) - first.either
    later = sum(not slip.readings for slip in text_only)
    method = (
        "The overlap of two independent lists of slips says how many slips are in neither: Chapman's estimate, with "
        "its interval at 95 %. It assumes that all slips are equally easy to find. Obvious slips are in both lists "
        "more often, so the estimate is rather a lower bound.\n"
    )
    first_reading = (
        f"A first reader, without this list, found {first.both} of its {first.first} errata again, and "
        f"{first.second - first.both} further slips, {added} of which are errata now:\n"
    )
    second_reading = (
        f"A second reader, without either list, found {second.both} of these {second.first} slips, and "
        f"{second.second - second.both} further slips, where the first table expects {unseen(first).value:.1f}:\n"
    )
    remarks = (
        f"Not counted are {known_before} errata that both readers knew before. The second reader compared the lists by "
        "hand when all were complete. In a second pass with both lists, from the end of each paper to its beginning, "
        f"the first reader found {later} more slips.\n"
    )
    return "\n".join([method, first_reading, tables[0], second_reading, tables[1], remarks])


def text_slip_list(paper: str) -> str:
    """The slips of a paper's text that no program shows, as a list."""
    return "\n".join(
        f"- *{plain(slip.at)}*{'' if slip.rank is Rank.TYPOGRAPHICAL else f' ({slip.rank})'}. "
        f"*Printed:* {marked(slip.printed)} *Right:* {marked(slip.right)}"
        for slip in text_slips(paper)
    )


def first_errata() -> str:
    """The most important errata of all papers, in their order."""
    load()
    first = first_slips()
    return "\n".join(line for slip in first for line in _numbered(slip, of_paper=True))


def errata_list(paper: str) -> str:
    """The other errata of a paper, by rank: the printed text, the correction, the reason, and a command."""
    load()
    first = first_slips()
    lines = [
        f"The list of the fifteen has {many(sum(slip.claim.paper == paper for slip in first), 'erratum', 'errata')} "
        "of this paper.",
        "",
    ]
    for rank in Rank:
        errata = [slip for slip in slips(paper) if slip.rank is rank and slip not in first]
        if errata:
            lines += [f"### {_capital(rank)}", "", *(line for slip in errata for line in _numbered(slip))]
    return "\n".join(lines)


def anchors() -> dict[str, tuple[str, ...]]:
    """The anchors of a claim's errata on their page, by its id."""
    load()
    anchors_of: dict[str, tuple[str, ...]] = {}
    for slip in sorted(slips(), key=lambda slip: _numbers()[slip.name]):
        for id in dict.fromkeys(claim.id for claim, _ in slip.places):
            anchors_of[id] = (*anchors_of.get(id, ()), slug(_heading(slip)))
    return anchors_of


@cache
def _numbers() -> dict[tuple[str, str], int]:
    """The number of every erratum on the page, by its name: the most important first, then by paper and rank."""
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
    """The place of an erratum: the first of its places, and the number of further places."""
    names = list(dict.fromkeys(erratum.at or called(claim) for claim, erratum in slip.places))
    more = len(names) - 1
    return f"{names[0]}{f' and {more} other place' + 's' * (more > 1) if more else ''}"


def called(claim: Claim) -> str:
    """The name of a claim: its place in the paper, and its part."""
    part = claim.id.split("/")[2:]
    return f"{claim.where}, {part[0].replace('-', ' ')}" if part else claim.where


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
    """The printed text, the correction and the reason; with their places if these differ.

    If the text of a later place begins with that of an earlier place, this part is not repeated.
    """
    wordings_of: dict[tuple[str, str, str], list[str]] = {}
    for claim, erratum in slip.places:
        wordings_of.setdefault((erratum.printed, erratum.right, erratum.why), []).append(erratum.at or called(claim))
    lines = []
    earlier: dict[str, str] = {}
    for (printed, right, why), places in wordings_of.items():
        where = f"  *In:* {plain(', '.join(dict.fromkeys(places)))}\\" if len(slip.places) > 1 else None
        said = [
            f"  *Printed:* {marked(printed)}\\",
            f"  *Right:* {marked(_shortened(right, earlier))}\\",
            f"  *Why:* {marked(_shortened(why, earlier))}",
        ]
        for text in (right, why):
            if len(text) > 80:  # short texts are repeated in full
                earlier.setdefault(text, places[0])
        block = [where, *said] if where else said
        lines += [f"- {block[0].lstrip()}", *block[1:], ""]
    return lines


def _shortened(text: str, earlier: Mapping[str, str]) -> str:
    """The text, with a reference to the place of an earlier text with which it begins."""
    for known, place in earlier.items():
        if text.startswith(known):
            return f"As in {place}.{text.removeprefix(known)}"
    return text


def command(claims: Iterable[Claim]) -> str:
    """The command that reruns some claims."""
    profiles = {claim.id: claim.profile for claim in claims}
    profile = "full" if "full" in profiles.values() else "quick"
    return f"separatrix reproduce --profile {profile} " + " ".join(f"--only {id}" for id in profiles)


def ledger_counts() -> str:
    """The number of claims by kind, and of errata by rank, as a paragraph."""
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


def misprints(errata: Sequence[Slip]) -> str:
    """The number of errata of each rank, as text."""
    number = Counter(slip.rank for slip in errata)
    said = [f"{number[rank]} {'change' if number[rank] != 1 else 'changes'} a statement" for rank in [Rank.STATEMENT]]
    said += [f"{number[Rank.PROOF]} {'repair' if number[Rank.PROOF] != 1 else 'repairs'} a proof"]
    said += [f"{number[Rank.TYPOGRAPHICAL]} {'are' if number[Rank.TYPOGRAPHICAL] != 1 else 'is'} typographical"]
    return ", ".join(said)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
