"""The tab Attend: the pairs of keys that one query of a call of order 3 attends, in a file of the reader's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, dcc, html
from dash.dependencies import Input, Output, State
from dash.development.base_component import Component

from separatrix.attention.weights.pair_map import PairMap
from separatrix.explorer import controls
from separatrix.explorer.alerts import callback_with_alert, unchanged
from separatrix.explorer.attend import example, figures
from separatrix.explorer.attend.call_file import CallFile, read
from separatrix.explorer.attend.fields import FIELDS
from separatrix.explorer.attributes import attributes
from separatrix.explorer.cards import figure_card, figure_outputs, figure_values
from separatrix.explorer.compute.machine_speed import one_core
from separatrix.explorer.compute.upload import decoded
from separatrix.explorer.context import UPLOAD_BYTES, Context
from separatrix.explorer.drop import drop
from separatrix.report.theme import Drawing

__all__ = ["COMPARES", "FIELDS", "TITLE", "layout", "register"]

TITLE = "Attend"
TAB = "attend"
COMPARES = False
_LEAD = (
    "A query of order 3 attends pairs of keys. Give a file of your own and choose a query: the map has a cell for each "
    "pair, and the bars say how much weight a key gets from all its partners."
)
_EXAMPLE = (
    f"Until then this is an example: {example.TOKENS} tokens with numbers below {example.MODULUS}, each of which "
    f"attends the pairs that add up to a multiple of {example.MODULUS} with its own number."
)
_FILE = (
    "A safetensors file with q, k1 and k2 of shape (..., length, d), or one that Certified.save wrote; up to "
    f"{UPLOAD_BYTES // 2**20} MiB. It is read on this machine, and not kept."
)


def layout(state: Mapping[str, str], context: Context) -> Component:
    """The file and the controls on the left, on a phone above; the map and the list on the right."""
    left = html.Div(
        [
            html.H3("Your own call"),
            html.P(_FILE, className="note"),
            drop("attend-file"),
            html.P(_EXAMPLE, className="note", id="attend-example"),
            *(controls.control(TAB, field, state[field.name]) for field in FIELDS),
        ],
        className="controls",
    )
    results = [
        controls.alert("attend-alert"),
        html.Div(
            dcc.Loading(
                figure_card("attend", title="What it attends to", height=figures.HEIGHT, first=lambda: _first(state)),
                type="dot",
                delay_show=500,  # milliseconds: a file may take long, the outline of the example is there at once
            ),
            className="first",
        ),
        html.Section(id="attend-top", **attributes(aria_label="The largest weights", aria_live="polite")),
    ]
    return controls.page(_LEAD, left, results, "split")


def register(app: Dash, context: Context) -> None:
    """The map follows the file and every control."""
    outputs = {
        "notes": controls.notes_output(TAB),
        "map": figure_outputs("attend"),
        "top": Output("attend-top", "children"),
        "example": Output("attend-example", "hidden"),
    }
    inputs = {
        **controls.reads(TAB),
        "contents": Input("attend-file", "contents"),
        "name": State("attend-file", "filename"),
    }

    @callback_with_alert(app, "attend-alert", outputs, inputs)
    def show(
        texts: Sequence[Any], ids: Sequence[Mapping[str, str]], contents: object, name: object
    ) -> Mapping[str, Any]:
        state = controls.state_of(texts, ids)
        wrong = controls.complaints(FIELDS, state)
        if wrong:
            told: dict[str, Any] = {**controls.refusals(wrong)}
            return {**unchanged(outputs), "notes": controls.notes(ids, told)}
        chosen = controls.values(FIELDS, state)
        call, called = _call(contents, name, causal=chosen["causal"] == "yes")
        found = _map(call, chosen)
        said: dict[str, Any] = {}
        if call.saved:
            own = "is causal" if call.options.get("is_causal") else "is not causal"
            said["causal"] = html.P(f"The file says itself that the call {own}.", className="note")
        words = None if contents is not None else lambda *pair: example.sum_of(found.query, *pair)
        return {
            "notes": controls.notes(ids, said),
            "map": figure_values(figures.drawn(found, called)),
            "top": figures.listed(found, called, words),
            "example": contents is not None,
        }


def _first(state: Mapping[str, Any]) -> Drawing | None:
    """The map of the example for what the address says; None where it cannot be read."""
    if controls.complaints(FIELDS, state):
        return None
    chosen = controls.values(FIELDS, state)
    call, called = _call(None, None, causal=chosen["causal"] == "yes")
    return figures.drawn(_map(call, chosen), called)


def _map(call: CallFile, chosen: Mapping[str, Any]) -> PairMap:
    with one_core():
        return call.map_of(chosen["query"], chosen["head"])


def _call(contents: object, name: object, *, causal: bool) -> tuple[CallFile, str]:
    """The call of the file, or of the example, and what it is called."""
    if contents is None:
        made = example.example()
        return CallFile(made.query, made.keys, {**made.options, "is_causal": causal}, saved=False), example.NAME
    return read(decoded(contents), is_causal=causal), str(name)[:80]
