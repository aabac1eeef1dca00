"""The control of a field: a text input, a slider that changes it, its help, and a note.

The text input has the exact value; the page's script synchronises the slider with it. Ids are dictionaries, ``{"kind":
"field", "tab": "separate", "of": "n.2", "slides": "yes"}``, where `of` is the name of the value in the URL: the page's
script writes all components of the kind *field* to the URL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from dash import dcc, html
from dash.dependencies import ALL, Input, Output, State
from dash.development.base_component import Component

from separatrix.errors import ArgumentError
from separatrix.explorer.address import SECOND, compares, side
from separatrix.explorer.attributes import attributes, element
from separatrix.explorer.fields import LONGEST, Field, Scale
from separatrix.report.typeset import typeset

_Made = TypeVar("_Made")


def control(tab: str, field: Field, text: str, *, second: bool = False) -> Component:
    """The control of a field with its help; with `second`, that of the second setting."""
    name = field.name + SECOND * second
    label = f"label-{tab}-{name.replace('.', '-')}"
    cited: list[str | Component] = [" ", html.Cite(f"{field.place}.")] if field.place else []
    help = [*typeset(field.help, element), *cited]
    inputs = _choice(tab, field, name, text, label) if field.choices else _text(tab, field, name, text, label)
    about = html.Summary("?", title=f"What is {field.label}?", **attributes(aria_label=f"What is {field.label}?"))
    return html.Div(
        [
            *inputs,
            html.Details([about, html.P(help)], className="help"),
            html.Div(id={"kind": "note", "tab": tab, "of": name}, className="notes", **attributes(aria_live="polite")),
        ],
        className="field choice" if field.choices else "field words" if field.scale is None else "field",
    )


def _choice(tab: str, field: Field, name: str, text: str, label: str) -> list[Component]:
    items = dcc.RadioItems(
        id=field_id(tab, name, slides=False),
        options=[{"label": option, "value": value} for value, option in field.choices],
        value=text,
        className="options",
    )
    return [
        html.Span(field.label, id=label, className="symbol"),
        html.Div(items, role="radiogroup", **attributes(aria_labelledby=label)),
    ]


def _text(tab: str, field: Field, name: str, text: str, label: str) -> list[Component]:
    written = dcc.Input(
        id=field_id(tab, name, slides=field.scale is not None),
        value=text,
        type="text",
        maxLength=LONGEST,
        autoComplete="off",
        spellCheck="false",
        className="value",
    )
    # The label contains the input, because dictionary ids of Dash do not work with `for`.
    inputs: list[Component] = [html.Label([html.Span(field.label, id=label, className="symbol"), written])]
    if field.scale is not None:
        inputs.append(_slider(tab, field.scale, name, field.label))
    return inputs


def _slider(tab: str, scale: Scale, name: str, label: str) -> Component:
    """The slider of a field; its positions are integers from 0, which the page's script converts to texts."""
    share = math.log10(scale.high / scale.low) * 3 if scale.log else (scale.high - scale.low) / float(scale.step)
    steps = max(1, round(share))
    data = {"low": scale.low, "high": scale.high, "log": scale.log, "step": scale.step, "steps": steps, "label": label}
    return html.Div(
        [
            dcc.Slider(
                id={"kind": "slider", "tab": tab, "of": name},
                min=0,
                max=steps,
                step=1,
                marks=None,
                updatemode="drag",
                allow_direct_input=False,
            ),
            dcc.Store(id={"kind": "scale", "tab": tab, "of": name}, data=data),
        ],
        className="slide",
    )


def field_id(tab: str, name: str, *, slides: bool = False) -> dict[str, str]:
    """The id of the component whose `value` is the text of a field."""
    return {"kind": "field", "tab": tab, "of": name, "slides": "yes" if slides else "no"}


def settings(
    tab: str,
    fields: Sequence[Field],
    state: Mapping[str, str],
    *,
    differs: tuple[str, tuple[str, str]],
    names: tuple[str, str] = ("Setting A", "Setting B"),
) -> Component:
    """All controls: the shared ones, a column for each setting, and the button that opens a second setting.

    `differs` is a field and two values of it: the second setting opens with the value that the first does not have.
    """
    both = compares(state)
    shared = [control(tab, field, state[field.name]) for field in fields if field.shared]
    own = [field for field in fields if not field.shared]
    columns = [
        html.Fieldset(
            [
                html.Legend(names[second]),
                *(control(tab, field, state[field.name + SECOND * second], second=second) for field in own),
            ],
            className="setting" if both else "setting alone",
        )
        for second in ([False, True] if both else [False])
    ]
    button = html.Button(
        f"Close {names[1]}" if both else "Compare with a second setting",
        id={"kind": "compare", "of": "close" if both else "open"},
        type="button",
        **attributes(data_differs=differs[0], data_values=" ".join(differs[1])),
    )
    return html.Div([html.Div(shared), html.Div(columns, className="columns"), button], className="controls")


def reads(tab: str) -> dict[str, Any]:
    """The inputs `texts` and `ids` of a callback that depends on all controls of a tab, for `state_of`."""
    every = {"kind": "field", "tab": tab, "of": ALL, "slides": ALL}
    return {"texts": Input(every, "value"), "ids": State(every, "id")}


def holds(tab: str) -> dict[str, Any]:
    """The fields of a tab as states, for a callback that another input triggers."""
    inputs = reads(tab)
    return {"texts": State(inputs["texts"].component_id, "value"), "ids": inputs["ids"]}


def state_of(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The texts by their names in the URL; `address.side` separates the settings."""
    return {id["of"]: text for id, text in zip(ids, texts, strict=True)}


def notes_output(tab: str) -> Output:
    """The notes below all controls of a tab; `notes` are their values."""
    return Output({"kind": "note", "tab": tab, "of": ALL}, "children")


def notes(ids: Sequence[Mapping[str, str]], messages: Mapping[str, Any]) -> list[Any]:
    """The note below each of the controls `ids`, from `messages` by the name of a parameter in the URL."""
    return [messages.get(id["of"], "") for id in ids]


def values(fields: Sequence[Field], texts: Mapping[str, object]) -> dict[str, Any]:
    """Parse the texts of the fields; the first invalid one raises an `ArgumentError`."""
    return {field.name: field.read(texts.get(field.name)) for field in fields}


def complaints(fields: Sequence[Field], texts: Mapping[str, object]) -> dict[str, str]:
    """The error messages of invalid texts, by name."""
    messages: dict[str, str] = {}
    for field in fields:
        try:
            field.read(texts.get(field.name))
        except ArgumentError as error:
            messages[field.name] = str(error)
    return messages


def each_setting(
    fields: Sequence[Field],
    state: Mapping[str, Any],
    make: Callable[[dict[str, Any]], _Made],
    note: Callable[[_Made], Mapping[str, Any]],
    messages: dict[str, Any],
) -> list[_Made] | None:
    """Call `make` with the values of each setting and return the results; None if a value is invalid.

    `messages` receives the notes below the controls: error messages, and the notes of `note` for valid settings.
    """
    results = []
    for second in (False, True) if compares(state) else (False,):
        texts, ending = side(state, second), SECOND * second
        wrong = complaints(fields, texts)
        if not wrong:
            try:
                result = make(values(fields, texts))
            except ArgumentError as error:
                wrong = {error.argument: str(error)}
            else:
                results.append(result)
                messages.update({name + ending: sentence for name, sentence in note(result).items()})
        messages.update({name + ending: sentence for name, sentence in refusals(wrong).items()})
    return results if len(results) == 1 + compares(state) else None


def refusals(wrong: Mapping[str, str]) -> dict[str, Component]:
    """The error messages below the controls, as components."""
    return {name: html.P(sentence, className="wrong", role="alert") for name, sentence in wrong.items()}


def page(
    lead: str, left: Component, results: Sequence[Component], kind: str, tries: Component | None = None
) -> Component:
    """The layout of a tab: an introduction, links to try, the controls on the left, and the results on the right.

    On a phone the result with the class ``first`` comes first, then the controls, then the other results.
    """
    columns = html.Div([left, html.Div(results, className="results")], className=kind)
    return html.Div([html.P([*typeset(lead, element)], className="lead"), *([] if tries is None else [tries]), columns])


def tries(tab: str, fields: Sequence[Field], settings: Mapping[str, Mapping[str, str]]) -> Component:
    """Links to example settings, each with a name and the texts that differ from the defaults."""
    links: list[Component] = []
    for name, texts in settings.items():
        pairs = {"tab": tab, **{field.name: texts.get(field.name, field.default) for field in fields}}
        links.append(html.A(name, href=f"/?{urlencode(pairs)}", className="try"))
    return html.Nav([html.Span("Try these:"), *links], className="tries", **attributes(aria_label="Settings to try"))


def alert(id: str) -> Component:
    """The alert in which `callback_with_alert` shows messages."""
    return html.Div(id=id, role="alert", className="alert")
