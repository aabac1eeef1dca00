"""The collapsible section of a claim: statement, verdict, evidence, figures, and the command that reruns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from separatrix.claims import PAPERS
from separatrix.claims.errata import slips_of
from separatrix.lab import registry
from separatrix.lab.wording import duration, many
from separatrix.report.claim_parts import badge, called, evidence, misprint, not_drawn, statement
from separatrix.report.evidence import CellFacts, Entry
from separatrix.report.links import link
from separatrix.report.markup import Html, join, slug, tag
from separatrix.report.packing import packed
from separatrix.report.panel import FigurePanel
from separatrix.report.typeset import typeset, with_formulas

KEY_DIGITS = 16
"""The number of digits of a key that are listed, which are enough for `separatrix store show`."""


def paper_section(name: str, entries: Sequence[Entry], page: Path) -> Html:
    """The section of a paper: its title, a link to its errata, and its claims."""
    paper = PAPERS[name]
    misprints = len(slips_of(entry.judgement.claim for entry in entries))
    way = tag("a", many(misprints, "erratum", "errata"), href="#errata") if misprints else None
    counted = tag("p", many(len(entries), "claim"), ", " if way else None, way, class_="counted")
    head = [tag("h2", paper.title), tag("p", paper.authors, class_="authors"), counted]
    return tag("section", *head, *(article(entry, page) for entry in entries), id=name, class_="paper")


def article(entry: Entry, page: Path) -> Html:
    """The section of a claim, whose summary has its place, its verdict and its statement."""
    judgement, claim = entry.judgement, entry.judgement.claim
    return tag(
        "article",
        tag("details", _line(entry), tag("div", *_opened(entry, page), class_="opened")),
        id=claim.id,
        data_verdict=judgement.verdict.value,
        data_unlike=entry.difference is not None,
        data_paper=claim.paper,
    )


def _line(entry: Entry) -> Html:
    """The summary of a claim, which is visible while the section is closed."""
    judgement, claim = entry.judgement, entry.judgement.claim
    return tag(
        "summary",
        tag("h3", called(claim)),
        tag(
            "span",
            badge(judgement.verdict, tag),
            tag("span", "not as recorded", class_="differs") if entry.difference else None,
            class_="found",
        ),
        tag("span", *typeset(claim.says, tag), class_="says statement"),
    )


def _opened(entry: Entry, page: Path) -> list[Html | None]:
    """The body of a claim. The statement is in the summary, which shows all of it when the section is open."""
    judgement, claim = entry.judgement, entry.judgement.claim
    problem = judgement.problem and tag(
        "details", tag("summary", "What went wrong"), tag("pre", judgement.problem, tabindex=0), class_="problem"
    )
    return [
        *statement(judgement, tag)[1:],
        tag("p", f"Not as recorded: {entry.difference}", class_="differs") if entry.difference else None,
        problem or None,
        evidence(judgement.finding.numbers, tag) if judgement.finding.numbers else None,
        *(misprint(erratum, tag) for erratum in claim.errata),
        *(figure(panel, claim.id) for panel in entry.panels),
        not_drawn(claim, tag) if claim.figures and not entry.complete else None,
        _origin(entry, page),
    ]


def figure(panel: FigurePanel, id: str, of: str = "figure", outline: Html | None = None) -> Html:
    """The element in which the page's script draws a figure, with its text alternative.

    The data of a figure are on the page once, even if several claims show it; `of` makes the labels of these elements
    distinct. The outline is shown until the figure is drawn.
    """
    label = slug(f"{of} {id} {panel.name}")
    name = f"{slug(f'{id} {panel.name}')}.csv"
    saved = tag("button", "The data (CSV)", type="button", class_="data", data_file=name, hidden=True)
    return tag(
        "figure",
        tag("div", _place(panel, label, outline), class_="wide"),
        tag("figcaption", *typeset(with_formulas(panel.words), tag), id=f"{label}-words"),
        saved,
        data_drawing=panel.key,
    )


def _place(panel: FigurePanel, label: str, outline: Html | None) -> Html:
    """An element of the height of the figure, so that the layout does not shift when it is drawn."""
    height = f"min-height: {panel.height}px"
    return tag("div", outline, class_="plot", role="img", aria_labelledby=f"{label}-words", id=label, style=height)


def _origin(entry: Entry, page: Path) -> Html:
    claim = entry.judgement.claim
    return tag(
        "div",
        tag("p", "To rerun it: ", tag("code", claim.command, class_="command")),
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
    """The keys of the cells by experiment, with their parameters."""
    sets: dict[tuple[str, int], list[CellFacts]] = {}
    for cell in cells:
        sets.setdefault((cell.cell.experiment, cell.cell.version), []).append(cell)
    lists = []
    for (name, version), facts in sets.items():
        took = sum(cell.seconds or 0.0 for cell in facts)
        title = f"{many(len(facts), 'cell')} of {name}, version {version}, {duration(took)}"
        lines = "\n".join(_cell(cell) for cell in facts)
        keys = tag(
            "pre",
            "The page's script lists them here.",
            tabindex=0,
            role="region",
            aria_label=f"The cells of {name}",
            class_="cells",
            data_packed=packed(lines),
        )
        lists.append(tag("details", tag("summary", title), keys))
    return lists


def _cell(facts: CellFacts) -> str:
    status = "" if facts.status == "done" else f"  {facts.status or 'not run'}"
    return f"{facts.key[:KEY_DIGITS]}  seed {facts.cell.seed}  {facts.cell.parameters}{status}"
