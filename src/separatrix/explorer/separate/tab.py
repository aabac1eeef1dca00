"""The tab Separate: the exact probabilities that softmax and linear attention separate D1 from D0, for any setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, html
from dash.dependencies import Output
from dash.development.base_component import Component

from separatrix.explorer import controls, maps
from separatrix.explorer.address import compares
from separatrix.explorer.alerts import callback_with_alert, unchanged
from separatrix.explorer.attributes import attributes, element
from separatrix.explorer.cards import (
    INVALID,
    copy_card,
    copy_outputs,
    earlier_figure,
    figure_card,
    figure_outputs,
    figure_values,
    no_copy,
)
from separatrix.explorer.context import Context
from separatrix.explorer.separate import code, fields, figures, plane, probabilities
from separatrix.explorer.separate.probabilities import View
from separatrix.report.theme import Drawing
from separatrix.report.typeset import typeset

TITLE = "Separate"
TAB = "separate"
COMPARES = True
SHARED = (figures.ALONG, plane.ACROSS, figures.ROW)
FIELDS = (*fields.FIELDS, *SHARED)

_LEAD = (
    "Two data sets, $D_0$ and $D_1$, differ in one token. Move $a_1$ across the step of the curve: to the left of it "
    "softmax attention no longer separates them. Success also requires that linear attention does not separate them. "
    "For long sequences it does not; for short ones it can: try Figure 4(d) with $a_1 = 3$."
)


_TRIES = {
    "Figure 4(d)": {"weights": "identity", "n": "200", "d": "22", "along": "a1"},
    "Figure 5(c)": {"n": "200", "d": "22", "along": "m"},
    "Figure 7(d)": {"weights": "cross", "n": "200", "d": "11", "a1": "3", "along": "a1"},
    "too many sign vectors": {"m": "1000", "along": "m"},
    "n up to 10¹⁰⁰": {"n": "1e100", "d": "102", "m": "231", "along": "n"},
    "a map of n and d": {"n": "1e6", "d": "42", "along": "n", "across": "d"},
    "order 3": {"mechanism": "order3", "n": "1e4", "d": "8", "m": "9"},
}
"""Settings to begin with."""


def layout(state: Mapping[str, str], context: Context) -> Component:
    """The layout: the controls on the left (on a phone above), the results on the right."""
    both = compares(state)
    numbers = html.Section(id="separate-numbers", **attributes(aria_label="Probabilities", aria_live="polite"))
    along = maps.section(
        TAB, (figures.ALONG, plane.ACROSS), state, "separation-along", "Probability of success", lambda: _along(state)
    )
    rows = [
        controls.control(TAB, figures.ROW, state["row"]),
        _columns(
            [figure_card(card, title=f"Attention rows{_of(i, both)}", height=360) for i, card in enumerate(_ROWS)], both
        ),
    ]
    copies = _columns(
        [html.Div([html.H3(f"Code{_of(i, both)}"), copy_card(card)]) for i, card in enumerate(_COPIES)], both
    )
    first = html.Div(along, className="first")
    results = [controls.alert("separate-alert"), numbers, first, html.Div(rows), copies]
    left = controls.settings(TAB, fields.FIELDS, state, differs=("a1", ("0.7", "1.2")))
    tries = controls.tries(TAB, FIELDS, _TRIES)
    return controls.page(_LEAD, left, results, "split both" if both else "split", tries)


_ROWS = ("attention-rows", "attention-rows-b")
_COPIES = ("separate", "separate-b")


def _of(i: int, both: bool) -> str:
    return f": setting {'AB'[i]}" if both else ""


def _columns(cards: Sequence[Component], both: bool) -> Component:
    """Two components side by side. The second is filled by callbacks, and hidden unless two settings are compared."""
    first, second = cards
    return html.Div([html.Div(first), html.Div(second, hidden=not both)], className="columns")


def register(app: Dash, context: Context) -> None:
    """Register two callbacks for every control, so that the fast results do not wait for the curve."""
    outputs = {
        "notes": controls.notes_output(TAB),
        "numbers": Output("separate-numbers", "children"),
        **{f"rows{i}": figure_outputs(card) for i, card in enumerate(_ROWS)},
        **{f"copy{i}": copy_outputs(card) for i, card in enumerate(_COPIES)},
    }

    @callback_with_alert(app, "separate-alert", outputs, controls.reads(TAB))
    def show(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        state = controls.state_of(texts, ids)
        shared = controls.values(SHARED, state)
        notes: dict[str, Any] = {}
        good = controls.each_setting(fields.FIELDS, state, _looked, _notes, notes)
        answer = {**unchanged(outputs), "notes": controls.notes(ids, notes)}
        if good is None:
            answer |= {f"rows{i}": earlier_figure(card) for i, card in enumerate(_ROWS)}
            answer |= {f"copy{i}": no_copy() for i in range(len(_COPIES))}
            return {**answer, "numbers": html.P(INVALID, className="alert")}
        answer["numbers"] = numbers([view for _, view in good])
        for i, (values, _) in enumerate(good):
            answer[f"rows{i}"] = figure_values(figures.rows(values, shared["row"]))
            answer[f"copy{i}"] = {"python": code.python(values), "command": code.command(values)}
        return answer

    curve = {"along": figure_outputs("separation-along")}

    @callback_with_alert(app, maps.alert_id(TAB), curve, controls.reads(TAB))
    def draw(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        drawing = _along(controls.state_of(texts, ids))
        return {"along": earlier_figure("separation-along") if drawing is None else figure_values(drawing)}


def _along(state: Mapping[str, Any]) -> Drawing | None:
    """The curve or the map for the values of the controls; None if one of them is invalid, which `show` reports."""
    settings = controls.each_setting(FIELDS, state, dict, lambda _: {}, {})
    if settings is None:
        return None
    along, across = state["along"], state["across"]
    if maps.is_map(settings, along, across):
        return plane.plane(settings[0], along, across)
    return figures.along(settings, along)


def _looked(values: dict[str, Any]) -> tuple[dict[str, Any], View]:
    return values, probabilities.look(values)


def _notes(setting_and_view: tuple[object, View]) -> dict[str, Any]:
    """The notes below the controls: violated hypotheses, and parameters that the setting does not have."""
    _, view = setting_and_view
    broken = probabilities.notes(view).items()
    unused = {name: html.P(f"Cross-attention has no {name}.", className="note") for name in probabilities.unused(view)}
    return {
        name: [html.P(sentence, className="broken") for sentence in sentences] for name, sentences in broken
    } | unused


def numbers(views: Sequence[View]) -> Component:
    """A table of the probabilities with one column for each setting; success is the first row."""
    parts = [view.parts() for view in views]
    order = [len(parts[0]) - 1, *range(len(parts[0]) - 1)]
    heads = [f"Setting {'AB'[i]}" for i in range(len(views))] if len(views) > 1 else ["Probability"]
    body = []
    for i in order:
        names = dict.fromkeys(column[i][0] for column in parts)
        cells = [html.Td([html.B(column[i][2]), _bar(column[i][1])]) for column in parts]
        body.append(
            html.Tr(
                [html.Th([*typeset(" / ".join(names), element)], scope="row"), *cells],
                className="success" if i == order[0] else "",
            )
        )
    head = html.Thead(html.Tr([html.Th("Event", scope="col"), *(html.Th(heading, scope="col") for heading in heads)]))
    return html.Div([html.Table([head, html.Tbody(body)], className="parts"), *_verdicts(views)])


def _bar(p: float) -> Component:
    return html.Div(html.Div(style={"width": f"{100 * p:.2f}%"}), className="bar", **attributes(aria_hidden="true"))


def _verdicts(views: Sequence[View]) -> list[Component]:
    """A paragraph for each setting that says whether the hypotheses of the theorems hold."""
    paragraphs: list[Component] = []
    for i, view in enumerate(views):
        who = f"Setting {'AB'[i]}" if len(views) > 1 else "This setting"
        if view.broken:
            paragraphs.append(html.P(f"{who} violates {probabilities.outside(view)}.", className="broken"))
        else:
            kept = f"{who} satisfies every hypothesis of its definition and theorem that can be checked at a fixed n."
            asymptotic = probabilities.unchecked(view)
            rest = f" The theorem also requires {asymptotic}; these conditions are asymptotic and not checked."
            paragraphs.append(html.P([kept, html.Span([*typeset(rest, element)], className="note")], className="kept"))
    return paragraphs
