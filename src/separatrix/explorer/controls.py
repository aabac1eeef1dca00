"""The controls of a field: a text that holds the value, a slider that writes it, its help, and a place for a note.

The text is the value, exactly as written; the slider is a help, moved by the page's own script. Ids are dictionaries,
``{"kind": "field", "tab": "separate", "of": "n.2", "slides": "yes"}``, where `of` is the value's name in the address:
whatever has the kind *field* is written into the address by the page's script, so a tab does nothing for it.
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

SEE_BELOW = "A value is not valid: see the note below it."

_Made = TypeVar("_Made")


def control(tab: str, field: Field, text: str, *, second: bool = False) -> Component:
    """A field's control with its help below; `second` is the one of the second setting."""
    name = field.name + SECOND * second
    label = f"label-{tab}-{name.replace('.', '-')}"
    cited: list[str | Component] = [" ", html.Cite(f"{field.place}.")] if field.place else []
    help = [*typeset(field.help, element), *cited]
    made = _choice(tab, field, name, text, label) if field.choices else _text(tab, field, name, text, label)
    about = html.Summary("?", title=f"What is {field.label}?", **attributes(aria_label=f"What is {field.label}?"))
    return html.Div(
        [
            *made,
            html.Details([about, html.P(help)], className="help"),
            html.Div(id={"kind": "note", "tab": tab, "of": name}, className="notes", **attributes(aria_live="polite")),
        ],
        className="field choice" if field.choices else "field words" if field.scale is None else "field",
    )


def _choice(tab: str, field: Field, name: str, text: str, label: str) -> list[Component]:
    items = dcc.RadioItems(
        id=field_id(tab, name, slides=False),
        options=[{"label": shown, "value": value} for value, shown in field.choices],
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
    # The label holds the input: Dash's dictionary ids are no names for a `for`.
    made: list[Component] = [html.Label([html.Span(field.label, id=label, className="symbol"), written])]
    if field.scale is not None:
        made.append(_slider(tab, field.scale, name, field.label))
    return made


def _slider(tab: str, scale: Scale, name: str, label: str) -> Component:
    """The slider of a field: its position is counted from 0, and the page's script turns it into a text."""
    share = math.log10(scale.high / scale.low) * 3 if scale.log else (scale.high - scale.low) / float(scale.step)
    steps = max(1, round(share))
    told = {"low": scale.low, "high": scale.high, "log": scale.log, "step": scale.step, "steps": steps, "label": label}
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
            dcc.Store(id={"kind": "scale", "tab": tab, "of": name}, data=told),
        ],
        className="slide",
    )


def field_id(tab: str, name: str, *, slides: bool = False) -> dict[str, str]:
    """The id of the component whose `value` is a field's text."""
    return {"kind": "field", "tab": tab, "of": name, "slides": "yes" if slides else "no"}


def settings(
    tab: str,
    fields: Sequence[Field],
    state: Mapping[str, str],
    *,
    differs: tuple[str, tuple[str, str]],
    names: tuple[str, str] = ("Setting A", "Setting B"),
) -> Component:
    """All the controls: the shared ones, then those of each setting in a column, and the button for a second one.

    `differs` is a field and two values for it: the second setting opens with the one that the first has not.
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
    """The inputs of a callback that depends on all controls of a tab: `texts` and `ids`, for `state_of`."""
    every = {"kind": "field", "tab": tab, "of": ALL, "slides": ALL}
    return {"texts": Input(every, "value"), "ids": State(every, "id")}


def holds(tab: str) -> dict[str, Any]:
    """Give the fields of a tab as states, for a callback that something else sets off."""
    found = reads(tab)
    return {"texts": State(found["texts"].component_id, "value"), "ids": found["ids"]}


def state_of(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The texts by name, as the address has them: `address.side` takes the setting apart."""
    return {id["of"]: text for id, text in zip(ids, texts, strict=True)}


def notes_output(tab: str) -> Output:
    """The places for a note below every control of a tab; `notes` fills them."""
    return Output({"kind": "note", "tab": tab, "of": ALL}, "children")


def notes(ids: Sequence[Mapping[str, str]], said: Mapping[str, Sequence[Any] | str]) -> list[Any]:
    """What to say below each of the controls, given by name in the address."""
    return [said.get(id["of"], "") for id in ids]


def values(fields: Sequence[Field], texts: Mapping[str, object]) -> dict[str, Any]:
    """The values of the texts; the first bad one is an `ArgumentError`."""
    return {field.name: field.read(texts.get(field.name)) for field in fields}


def complaints(fields: Sequence[Field], texts: Mapping[str, object]) -> dict[str, str]:
    """What is wrong with each of the texts, by name; nothing where all are good."""
    said: dict[str, str] = {}
    for field in fields:
        try:
            field.read(texts.get(field.name))
        except ArgumentError as error:
            said[field.name] = str(error)
    return said


def each_setting(
    fields: Sequence[Field],
    state: Mapping[str, Any],
    make: Callable[[dict[str, Any]], _Made],
    note: Callable[[_Made], Mapping[str, Any]],
    said: dict[str, Any],
) -> list[_Made] | None:
    """Give what `make` makes of the values of each setting; None if one of them is not as it must be.

    `said` is told what stands below the controls: what is wrong, and what `note` has to say of a good setting.
    """
    found = []
    for second in (False, True) if compares(state) else (False,):
        texts, ending = side(state, second), SECOND * second
        wrong = complaints(fields, texts)
        if not wrong:
            try:
                one = make(values(fields, texts))
            except ArgumentError as error:
                wrong = {error.argument: str(error)}
            else:
                found.append(one)
                said.update({name + ending: told for name, told in note(one).items()})
        said.update({name + ending: told for name, told in refusals(wrong).items()})
    return found if len(found) == 1 + compares(state) else None


def refusals(wrong: Mapping[str, str]) -> dict[str, Component]:
    """What is wrong, by name, as it stands below the controls."""
    return {name: html.P(told, className="wrong", role="alert") for name, told in wrong.items()}


def page(
    lead: str, left: Component, results: Sequence[Component], kind: str, tries: Component | None = None
) -> Component:
    """A tab: what to look at, what to try, the controls on the left, and what follows from them on the right.

    On a phone the result of the class ``first`` comes first, then the controls, then the other results.
    """
    shown = html.Div([left, html.Div(results, className="results")], className=kind)
    return html.Div([html.P([*typeset(lead, element)], className="lead"), *([] if tries is None else [tries]), shown])


def tries(tab: str, fields: Sequence[Field], settings: Mapping[str, Mapping[str, str]]) -> Component:
    """Links to settings worth a look: each has a name and the texts by which it differs from the defaults."""
    links: list[Component] = []
    for name, texts in settings.items():
        pairs = {"tab": tab, **{field.name: texts.get(field.name, field.default) for field in fields}}
        links.append(html.A(name, href=f"/?{urlencode(pairs)}", className="try"))
    return html.Nav([html.Span("Try these:"), *links], className="tries", **attributes(aria_label="Settings to try"))


def alert(id: str) -> Component:
    """Where `callback_with_alert` puts its sentence."""
    return html.Div(id=id, role="alert", className="alert")
