"""A claim on the page: statement, verdict, evidence, figures, and how to find it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from separatrix.claims import PAPERS
from separatrix.lab import registry
from separatrix.lab.wording import duration, many
from separatrix.report.claim_parts import badge, called, evidence, misprint, not_drawn, statement
from separatrix.report.evidence import CellFacts, Entry
from separatrix.report.links import link
from separatrix.report.markup import Html, data_link, inert, join, slug, tag
from separatrix.report.panel import Panel
from separatrix.report.summary import mark


def paper_section(name: str, entries: Sequence[Entry], page: Path) -> Html:
    """The section of a paper: its summary, and each of its claims."""
    paper = PAPERS[name]
    articles = [article(one, page) for one in entries]
    head = [tag("h2", paper.title), tag("p", paper.authors, class_="authors"), _contents(name, entries)]
    return tag("section", *head, *articles, id=name)


def _contents(name: str, entries: Sequence[Entry]) -> Html:
    """The claims of a paper with the marks of their verdicts, and a link to its errata."""
    items = [
        tag(
            "li",
            mark(one.judgement.verdict),
            " ",
            tag("a", called(one.judgement.claim), href=f"#{one.judgement.claim.id}"),
        )
        for one in entries
    ]
    misprints = sum(len(one.judgement.claim.errata) for one in entries)
    way = tag("p", tag("a", many(misprints, "erratum", "errata"), href=f"#errata-{name}")) if misprints else None
    return tag(
        "details", tag("summary", many(len(items), "claim")), tag("ul", *items), way, class_="contents", open=True
    )


def article(entry: Entry, page: Path) -> Html:
    """One claim."""
    one, claim = entry.judgement, entry.judgement.claim
    title = tag("h3", tag("a", called(claim), href=f"#{claim.id}"), " ", badge(one.verdict, tag))
    problem = one.problem and tag(
        "details", tag("summary", "What went wrong"), tag("pre", one.problem, tabindex=0), class_="problem"
    )
    return tag(
        "article",
        title,
        tag("p", f"Not as recorded: {entry.difference}", class_="differs") if entry.difference else None,
        *statement(one, tag),
        problem or None,
        evidence(one.finding.numbers, tag) if one.finding.numbers else None,
        *(misprint(erratum, tag) for erratum in claim.errata),
        *(figure(panel, claim.id) for panel in entry.panels),
        not_drawn(claim, tag) if claim.figures and not entry.complete else None,
        _origin(entry, page),
        id=claim.id,
    )


def figure(panel: Panel, id: str) -> Html:
    """A place for the script to draw in, named by the words that say what it shows."""
    label = slug(f"figure {id} {panel.name}")
    return tag(
        "figure",
        tag("div", _place(panel, label), class_="wide"),
        inert(panel.json, class_="drawing"),
        tag("figcaption", panel.words, id=f"{label}-words"),
        data_link("The data (CSV)", "text/csv", f"{slug(f'{id} {panel.name}')}.csv", panel.csv),
    )


def _place(panel: Panel, label: str) -> Html:
    """An empty place as high as the figure will be, so that nothing moves when it is drawn."""
    height = f"min-height: {panel.height}px"
    return tag("div", class_="plot", role="img", aria_labelledby=f"{label}-words", id=label, style=height)


def _origin(entry: Entry, page: Path) -> Html:
    claim = entry.judgement.claim
    return tag(
        "div",
        tag("p", "To find it again: ", tag("code", claim.command, class_="command")),
        tag("p", "Code: ", _code(entry, page)),
        *_cell_sets(entry.cells),
        class_="origin",
    )


def _code(entry: Entry, page: Path) -> Html:
    """Links to the code of the check, of the experiments and of the figures."""
    named: dict[str, Callable[..., Any]] = {"check": entry.judgement.claim.check}
    for name in dict.fromkeys(facts.cell.experiment for facts in entry.cells):
        named[f"experiment {name}"] = registry.named(name).function
    for panel in entry.panels:
        named[f"figure {panel.name}"] = panel.function
    return join([join([f"{what} ", link(function, page)]) for what, function in named.items()], ", ")


def _cell_sets(cells: Sequence[CellFacts]) -> list[Html]:
    """The keys of each experiment's cells, with what they stand for."""
    sets: dict[tuple[str, int], list[CellFacts]] = {}
    for one in cells:
        sets.setdefault((one.cell.experiment, one.cell.version), []).append(one)
    told = []
    for (name, version), facts in sets.items():
        took = sum(one.seconds or 0.0 for one in facts)
        title = f"{many(len(facts), 'cell')} of {name}, recipe {version}, {duration(took)}"
        lines = "\n".join(_line(one) for one in facts)
        keys = tag("pre", lines, tabindex=0, role="region", aria_label=f"The cells of {name}", class_="cells")
        told.append(tag("details", tag("summary", title), keys))
    return told


def _line(facts: CellFacts) -> str:
    status = "" if facts.status == "done" else f"  {facts.status or 'not run'}"
    return f"{facts.key}  seed {facts.cell.seed}  {facts.cell.parameters}{status}"
