"""The tab Claims: the ledger, filtered; a claim opened, with its evidence, its errata and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, dcc, html
from dash.dependencies import Input, Output
from dash.development.base_component import Component

from separatrix.claims import PAPERS
from separatrix.claims.verdicts import Judgement
from separatrix.explorer import controls
from separatrix.explorer.alerts import callback_with_alert
from separatrix.explorer.attributes import attributes, element
from separatrix.explorer.cards import drawn_card
from separatrix.explorer.claims.judged_claims import (
    CLAIM,
    FIELDS,
    PAPER,
    TEXT,
    VERDICT,
    Shelf,
    chosen,
    counted,
    shelf_of,
)
from separatrix.explorer.context import Context
from separatrix.lab.wording import duration, many
from separatrix.report.claim_parts import badge, called, evidence, legend, misprint, not_drawn, statement
from separatrix.report.links import place
from separatrix.report.typeset import typeset

__all__ = ["COMPARES", "FIELDS", "TITLE", "layout", "register"]

TITLE = "Claims"
TAB = "claims"
COMPARES = False

_LEAD = (
    "Every statement of the papers that a program can check, with its verdict. Start with the statements that fail as "
    "printed or hold once corrected: choose a verdict, then a claim."
)


def layout(state: Mapping[str, str], context: Context) -> Component:
    """The layout: the filter, the list of claims, and the selected claim."""
    filters = [controls.control(TAB, field, state[field.name]) for field in (PAPER, VERDICT, TEXT)]
    listed = dcc.RadioItems(
        id=controls.field_id(TAB, CLAIM.name), options=[], value=state["claim"] or None, className="claims"
    )
    left = [
        html.Div(filters, className="filter", role="search", **attributes(aria_label="Filter the claims")),
        html.P(id="claims-count", className="note", **attributes(aria_live="polite")),
        controls.alert("claims-list-alert"),
        html.Div(listed, className="list", role="radiogroup", **attributes(aria_label="Claims")),
    ]
    opened = [controls.alert("claims-alert"), html.Div(id="claim", **attributes(aria_live="polite"))]
    return controls.page(_LEAD, html.Div(left, className="controls"), opened, "split claims-split")


def register(app: Dash, context: Context) -> None:
    """Register the callbacks that update the list of claims and the selected claim."""
    shelf = shelf_of(context.store)

    def field(name: str) -> Input:
        return Input(controls.field_id(TAB, name), "value")

    listed = {"options": Output(controls.field_id(TAB, CLAIM.name), "options")}
    filters = (PAPER, VERDICT, TEXT)

    @callback_with_alert(
        app,
        "claims-list-alert",
        {**listed, "count": Output("claims-count", "children")},
        {filter_.name: field(filter_.name) for filter_ in filters},
    )
    def choose(**texts: Any) -> Mapping[str, Any]:
        judgements = chosen(shelf.judgements(), **controls.values(filters, {**texts, "text": texts["text"] or ""}))
        return {
            "options": [{"label": _item(judgement), "value": judgement.claim.id} for judgement in judgements],
            "count": counted(judgements),
        }

    @callback_with_alert(app, "claims-alert", {"claim": Output("claim", "children")}, {"claim": field(CLAIM.name)})
    def open_claim(claim: Any) -> Mapping[str, Any]:
        id = CLAIM.read(claim or "")
        return {"claim": opened(shelf.judgement(id), shelf) if id else overview(shelf)}


def _item(judgement: Judgement) -> Component:
    return html.Span(
        [
            html.Span([badge(judgement.verdict, element), f" {called(judgement.claim)}"]),
            element("small", *typeset(judgement.claim.says, element), class_="short"),
        ],
        className="item",
    )


def overview(shelf: Shelf) -> list[Component]:
    """The panel that is shown before a claim is selected."""
    return [_no_store(shelf), html.H3("What the verdicts mean"), legend(element)]


def _no_store(shelf: Shelf) -> Component:
    if shelf.exists:
        return html.Div()
    parts: list[str | Component] = [
        "This folder has no results yet, so all verdicts are the recorded ones. ",
        html.Code("separatrix reproduce", className="command"),
        " reruns the claims, and ",
        html.Code("separatrix explore --store FOLDER", className="command"),
        " opens another folder.",
    ]
    return html.P(parts, className="note", role="note")


def opened(judgement: Judgement, shelf: Shelf) -> list[Component]:
    """A claim: its statement, verdict, evidence, errata and figures, and the command that reruns it."""
    claim, paper = judgement.claim, PAPERS[judgement.claim.paper]
    parts: list[Component] = [
        html.H2([f"{called(claim)} ", badge(judgement.verdict, element)]),
        html.P(f"{paper.title}. {paper.authors}.", className="authors"),
        *statement(judgement, element),
    ]
    if judgement.problem:
        parts.append(html.P("Its check raised an error: `separatrix reproduce` shows it.", className="alert"))
    if judgement.finding.numbers:
        parts.append(evidence(judgement.finding.numbers, element))
    parts += [misprint(erratum, element) for erratum in claim.errata]
    figures = [drawn_card(name, drawing) for name, drawing in shelf.drawings(claim)]
    if claim.figures and not figures:
        parts.append(not_drawn(claim, element))
    return [_no_store(shelf), html.Article([*parts, *figures, _origin(judgement)])]


def _origin(judgement: Judgement) -> Component:
    check, have = judgement.claim.check, len(judgement.keys) - judgement.missing - judgement.failed
    ran = f"{have:,} of {many(len(judgement.keys), 'cell')} done, {duration(judgement.seconds)}."
    lines: list[list[str | Component]] = [
        [f"The check: {(check.__doc__ or '').strip()} ".replace("  ", " "), html.Code(str(place(check)))],
        [f"{ran} To rerun it: ", html.Code(judgement.claim.command, className="command")],
    ]
    return html.Div([html.P(line) for line in lines], className="origin")
