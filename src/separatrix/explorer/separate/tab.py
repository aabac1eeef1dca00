"""The tab Separate: which attention tells D1 from D0, exactly, at the reader's own numbers."""

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
from separatrix.explorer.cards import copy_card, copy_outputs, figure_card, figure_outputs, figure_values
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
    """The controls on the left, on a phone above; what follows from them on the right."""
    both = compares(state)
    numbers = html.Section(id="separate-numbers", **attributes(aria_label="Probabilities", aria_live="polite"))
    along = maps.section(
        TAB, (figures.ALONG, plane.ACROSS), state, "separation-along", "Where it separates", lambda: _along(state)
    )
    rows = [
        controls.control(TAB, figures.ROW, state["row"]),
        _columns(
            [figure_card(one, title=f"Attention rows{_of(i, both)}", height=360) for i, one in enumerate(_ROWS)], both
        ),
    ]
    copies = _columns(
        [html.Div([html.H3(f"Take it away{_of(i, both)}"), copy_card(one)]) for i, one in enumerate(_COPIES)], both
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
    """One beside the other; the second is there but hidden until there is a second setting, since callbacks fill it."""
    first, second = cards
    return html.Div([html.Div(first), html.Div(second, hidden=not both)], className="columns")


def register(app: Dash, context: Context) -> None:
    """Two callbacks of every control: what is quick, and the curve, for which nothing should wait."""
    outputs = {
        "notes": controls.notes_output(TAB),
        "numbers": Output("separate-numbers", "children"),
        **{f"rows{i}": figure_outputs(one) for i, one in enumerate(_ROWS)},
        **{f"copy{i}": copy_outputs(one) for i, one in enumerate(_COPIES)},
    }

    @callback_with_alert(app, "separate-alert", outputs, controls.reads(TAB))
    def show(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        state = controls.state_of(texts, ids)
        shared = controls.values(SHARED, state)
        said: dict[str, Any] = {}
        good = controls.each_setting(fields.FIELDS, state, _looked, _notes, said)
        answer = {**unchanged(outputs), "notes": controls.notes(ids, said)}
        if good is None:
            return {**answer, "numbers": html.P(controls.SEE_BELOW, className="alert")}
        answer["numbers"] = numbers([view for _, view in good])
        for i, (values, _) in enumerate(good):
            answer[f"rows{i}"] = figure_values(figures.rows(values, shared["row"]))
            answer[f"copy{i}"] = {"python": code.python(values), "command": code.command(values)}
        return answer

    curve = {"along": figure_outputs("separation-along")}

    @callback_with_alert(app, maps.alert_id(TAB), curve, controls.reads(TAB))
    def draw(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        drawing = _along(controls.state_of(texts, ids))
        return {"along": unchanged(curve["along"]) if drawing is None else figure_values(drawing)}


def _along(state: Mapping[str, Any]) -> Drawing | None:
    """The curve or the map of what the controls say; None where it cannot be read, as `show` tells."""
    settings = controls.each_setting(FIELDS, state, dict, lambda _: {}, {})
    if settings is None:
        return None
    along, across = state["along"], state["across"]
    if maps.is_map(settings, along, across):
        return plane.plane(settings[0], along, across)
    return figures.along(settings, along)


def _looked(values: dict[str, Any]) -> tuple[dict[str, Any], View]:
    return values, probabilities.look(values)


def _notes(one: tuple[object, View]) -> dict[str, Any]:
    """What a setting breaks, and which of the values it does not have."""
    _, view = one
    broken = probabilities.notes(view).items()
    unused = {name: html.P(f"Cross-attention has no {name}.", className="note") for name in probabilities.unused(view)}
    return {name: [html.P(told, className="broken") for told in sentences] for name, sentences in broken} | unused


def numbers(views: Sequence[View]) -> Component:
    """The probabilities as a table, success first, a column a setting."""
    parts = [view.parts() for view in views]
    order = [len(parts[0]) - 1, *range(len(parts[0]) - 1)]
    heads = [f"Setting {'AB'[i]}" for i in range(len(views))] if len(views) > 1 else ["Probability"]
    body = []
    for i in order:
        names = dict.fromkeys(one[i][0] for one in parts)
        cells = [html.Td([html.B(one[i][2]), _bar(one[i][1])]) for one in parts]
        body.append(
            html.Tr(
                [html.Th([*typeset(" / ".join(names), element)], scope="row"), *cells],
                className="success" if i == order[0] else "",
            )
        )
    head = html.Thead(html.Tr([html.Th("Event", scope="col"), *(html.Th(one, scope="col") for one in heads)]))
    return html.Div([html.Table([head, html.Tbody(body)], className="parts"), *_verdicts(views)])


def _bar(p: float) -> Component:
    return html.Div(html.Div(style={"width": f"{100 * p:.2f}%"}), className="bar", **attributes(aria_hidden="true"))


def _verdicts(views: Sequence[View]) -> list[Component]:
    """Whether the theorems speak of this setting."""
    told: list[Component] = []
    for i, view in enumerate(views):
        who = f"Setting {'AB'[i]}" if len(views) > 1 else "This setting"
        if view.broken:
            told.append(html.P(f"{who} is outside {probabilities.outside(view)}.", className="broken"))
        else:
            kept = f"{who} satisfies every hypothesis of its definition and theorem that can be checked at a fixed n."
            rest = f" They also require {probabilities.unchecked(view)}; these are about growing n, and not checked."
            told.append(html.P([kept, html.Span([*typeset(rest, element)], className="note")], className="kept"))
    return told
