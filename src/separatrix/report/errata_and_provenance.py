"""The end of the page: the errata, and the provenance of the results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from separatrix.claims import PAPERS
from separatrix.claims.errata import Slip, slips_of
from separatrix.claims.ledger import RANKS, Rank
from separatrix.claims.verdicts import Judgement
from separatrix.lab.export import moment
from separatrix.lab.wording import duration, many
from separatrix.report.claim_parts import badge, called, misprint
from separatrix.report.evidence import CellFacts, Entry
from separatrix.report.markup import Html, join, table, tag

_UNKNOWN = "unknown"


def errata(entries: Sequence[Entry]) -> Html:
    """The section of the errata, by rank, each with the claims that show it and their verdicts."""
    sections = [_ranked(rank, entries) for rank in Rank]
    nonempty = [section for section in sections if section is not None]
    return tag("section", tag("h2", "Errata"), *(nonempty or [tag("p", "No claim shows a misprint.")]), id="errata")


def _ranked(rank: Rank, entries: Sequence[Entry]) -> Html | None:
    """The errata of a rank by paper, each once with all of its places; None if there are none."""
    judged = {entry.judgement.claim.id: entry.judgement for entry in entries}
    ranked = [slip for slip in slips_of(entry.judgement.claim for entry in entries) if slip.rank is rank]
    if not ranked:
        return None
    parts: list[Html] = []
    for paper, group in groupby(ranked, lambda slip: slip.claim.paper):
        parts += [tag("h3", PAPERS[paper].title), *(_misprinted(slip, judged) for slip in group)]
    title = f"{rank.value.capitalize()}: {many(len(ranked), 'erratum', 'errata')}"
    return _folded(title, tag("p", RANKS[rank], class_="note"), *parts)


def _misprinted(slip: Slip, judged: Mapping[str, Judgement]) -> Html:
    """An erratum below the claims that show it; places with the same wording are listed together."""
    ones = {claim.id: judged[claim.id] for claim, _ in slip.places}
    links = [
        join([tag("a", called(judgement.claim), href=f"#{id}"), " ", badge(judgement.verdict, tag)])
        for id, judgement in ones.items()
    ]
    wordings = {(erratum.printed, erratum.right, erratum.why): erratum for _, erratum in slip.places}
    heading = tag("h4", join(links, ", "))
    return tag("div", heading, *(misprint(erratum, tag) for erratum in wordings.values()), class_="misprinted")


def provenance(entries: Sequence[Entry], written: float, by: str) -> Html:
    """The provenance of the results and of the page; `by` describes the process that writes the page."""
    origins = list(dict.fromkeys([by, *(facts.origin for entry in entries for facts in entry.cells if facts.origin)]))
    number = {origin: i for i, origin in enumerate(origins, 1)}
    cell_counts = Counter(
        facts.origin for facts in {facts.key: facts for entry in entries for facts in entry.cells}.values()
    )
    sets = [
        [tag("a", called(entry.judgement.claim), href=f"#{entry.judgement.claim.id}"), *row]
        for entry in entries
        for row in _cell_sets(entry.cells, number)
    ]
    names = ("Claim", "Experiment", "Cells", "Origin", "Finished", "Took")
    return tag(
        "section",
        tag("h2", "Provenance"),
        tag(
            "p",
            f"This page was written at {moment(written)} on the machine and with the software of origin 1. The list "
            "below has the origins of all results.",
        ),
        tag("div", *(_origin(i, origin, cell_counts[origin]) for origin, i in number.items()), class_="origins"),
        _folded("When the cells were done", tag("div", table(names, sets, class_="stacked"), class_="wide"))
        if sets
        else None,
        id="provenance",
    )


def _folded(title: str, *parts: Html) -> Html:
    """A collapsible part of the page."""
    return tag("details", tag("summary", title), *parts)


def _origin(number: int, origin: str, cells: int) -> Html:
    facts = {name: value or _UNKNOWN for name, value in json.loads(origin).items()}
    pairs = [tag("div", tag("dt", name), tag("dd", str(value))) for name, value in facts.items()]
    return tag("div", tag("h4", f"Origin {number}, of {many(cells, 'cell')}"), tag("dl", *pairs))


def _cell_sets(cells: Sequence[CellFacts], number: dict[str, int]) -> list[list[str]]:
    """A row for each experiment of a claim and each origin of its results."""
    sets: dict[tuple[str, int, str | None], list[CellFacts]] = {}
    for facts in cells:
        if facts.status in ("done", "failed"):
            sets.setdefault((facts.cell.experiment, facts.cell.version, facts.origin), []).append(facts)
    rows = []
    for (name, version, origin), group in sets.items():
        times = sorted(facts.finished for facts in group if facts.finished is not None)
        ends = list(dict.fromkeys(moment(end) or _UNKNOWN for end in (times[0], times[-1]))) if times else [_UNKNOWN]
        origin_number = _UNKNOWN if origin is None else str(number[origin])
        took = duration(sum(facts.seconds or 0.0 for facts in group))
        rows.append([f"{name}, version {version}", f"{len(group):,}", origin_number, " to ".join(ends), took])
    return rows
