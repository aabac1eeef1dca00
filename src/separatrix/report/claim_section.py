"""A claim on the page, folded away: statement, verdict, evidence, figures, and how to find it again."""

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
from separatrix.report.typeset import typeset

KEY_DIGITS = 16
"""So many digits of a key are listed, which is what `separatrix store show` needs to find a cell."""


def paper_section(name: str, entries: Sequence[Entry], page: Path) -> Html:
    """The section of a paper: its title, the way to its errata, and each of its claims."""
    paper = PAPERS[name]
    misprints = len(slips_of(one.judgement.claim for one in entries))
    way = tag("a", many(misprints, "erratum", "errata"), href="#errata") if misprints else None
    counted = tag("p", many(len(entries), "claim"), ", " if way else None, way, class_="counted")
    head = [tag("h2", paper.title), tag("p", paper.authors, class_="authors"), counted]
    return tag("section", *head, *(article(one, page) for one in entries), id=name, class_="paper")


def article(entry: Entry, page: Path) -> Html:
    """One claim: a line of its place, its verdict and its statement, which opens to all that was found."""
    one, claim = entry.judgement, entry.judgement.claim
    return tag(
        "article",
        tag("details", _line(entry), tag("div", *_opened(entry, page), class_="opened")),
        id=claim.id,
        data_verdict=one.verdict.value,
        data_unlike=entry.difference is not None,
        data_paper=claim.paper,
    )


def _line(entry: Entry) -> Html:
    """What is seen of a claim while it is folded."""
    one, claim = entry.judgement, entry.judgement.claim
    return tag(
        "summary",
        tag("h3", called(claim)),
        tag(
            "span",
            badge(one.verdict, tag),
            tag("span", "not as recorded", class_="differs") if entry.difference else None,
            class_="found",
        ),
        tag("span", *typeset(claim.says, tag), class_="says statement"),
    )


def _opened(entry: Entry, page: Path) -> list[Html | None]:
    """What a claim opens to, after its statement, which stands in its line and is then shown whole."""
    one, claim = entry.judgement, entry.judgement.claim
    problem = one.problem and tag(
        "details", tag("summary", "What went wrong"), tag("pre", one.problem, tabindex=0), class_="problem"
    )
    return [
        *statement(one, tag)[1:],
        tag("p", f"Not as recorded: {entry.difference}", class_="differs") if entry.difference else None,
        problem or None,
        evidence(one.finding.numbers, tag) if one.finding.numbers else None,
        *(misprint(erratum, tag) for erratum in claim.errata),
        *(figure(panel, claim.id) for panel in entry.panels),
        not_drawn(claim, tag) if claim.figures and not entry.complete else None,
        _origin(entry, page),
    ]


def figure(panel: FigurePanel, id: str, of: str = "figure", outline: Html | None = None) -> Html:
    """A place for the script to draw in, named by the words that say what it shows.

    The drawing lies elsewhere on the page, once for all places that show it; `of` tells two places apart. The outline
    is shown until the figure is drawn.
    """
    label = slug(f"{of} {id} {panel.name}")
    name = f"{slug(f'{id} {panel.name}')}.csv"
    saved = tag("button", "The data (CSV)", type="button", class_="data", data_file=name, hidden=True)
    return tag(
        "figure",
        tag("div", _place(panel, label, outline), class_="wide"),
        tag("figcaption", panel.words, id=f"{label}-words"),
        saved,
        data_drawing=panel.key,
    )


def _place(panel: FigurePanel, label: str, outline: Html | None) -> Html:
    """A place as high as the figure will be, so that nothing moves when it is drawn."""
    height = f"min-height: {panel.height}px"
    return tag("div", outline, class_="plot", role="img", aria_labelledby=f"{label}-words", id=label, style=height)


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
        lines = "\n".join(_cell(one) for one in facts)
        keys = tag(
            "pre",
            "The page's script shows them here.",
            tabindex=0,
            role="region",
            aria_label=f"The cells of {name}",
            class_="cells",
            data_packed=packed(lines),
        )
        told.append(tag("details", tag("summary", title), keys))
    return told


def _cell(facts: CellFacts) -> str:
    status = "" if facts.status == "done" else f"  {facts.status or 'not run'}"
    return f"{facts.key[:KEY_DIGITS]}  seed {facts.cell.seed}  {facts.cell.parameters}{status}"
