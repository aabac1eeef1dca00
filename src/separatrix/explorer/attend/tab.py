"""The tab Attend: the weights of one query over pairs of keys, for a call of order 3 in an uploaded file."""

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
from separatrix.explorer.cards import INVALID, earlier_figure, figure_card, figure_outputs, figure_values
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
    "In attention of order 3 a query attends to pairs of keys. Upload a file and choose a query: the map has a cell "
    "for each pair, and the bars show the weight of each key, summed over all its partners."
)
_EXAMPLE = (
    f"Until you upload one, this is an example: {example.TOKENS} tokens with numbers below {example.MODULUS}, "
    f"each of which attends to the pairs that add up to a multiple of {example.MODULUS} together with its own number."
)
_FILE = (
    "A safetensors file with q, k1 and k2 of shape (..., length, d), or one that Certified.save wrote; up to "
    f"{UPLOAD_BYTES // 2**20} MiB. It is read on this machine and not stored."
)
_EARLIER = "This figure shows the earlier call: the message above says why the new one cannot be shown."


def layout(state: Mapping[str, str], context: Context) -> Component:
    """The layout: the file and the controls on the left (on a phone above), the map and the table on the right."""
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
                figure_card(
                    "attend", title="What the query attends to", height=figures.HEIGHT, first=lambda: _first(state)
                ),
                type="dot",
                delay_show=500,  # in milliseconds: a file may take long, but the example is shown immediately
            ),
            className="first",
        ),
        html.Section(id="attend-top", **attributes(aria_label="The largest weights", aria_live="polite")),
    ]
    return controls.page(_LEAD, left, results, "split")


def register(app: Dash, context: Context) -> None:
    """Register the callback that updates the map when the file or a control changes."""
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

    @callback_with_alert(
        app, "attend-alert", outputs, inputs, on_error={"map": earlier_figure("attend", _EARLIER), "top": None}
    )
    def show(
        texts: Sequence[Any], ids: Sequence[Mapping[str, str]], contents: object, name: object
    ) -> Mapping[str, Any]:
        state = controls.state_of(texts, ids)
        wrong = controls.complaints(FIELDS, state)
        if wrong:
            answer = {**unchanged(outputs), "notes": controls.notes(ids, controls.refusals(wrong))}
            return {**answer, "map": earlier_figure("attend"), "top": html.P(INVALID, className="alert")}
        chosen = controls.values(FIELDS, state)
        call, called = _call(contents, name, causal=chosen["causal"] == "yes")
        pair_map = _map(call, chosen)
        notes: dict[str, Any] = {}
        if call.saved:
            own = "is causal" if call.options.get("is_causal") else "is not causal"
            notes["causal"] = html.P(f"According to the file, the call {own}.", className="note")
        words = None if contents is not None else lambda *pair: example.sum_of(pair_map.query, *pair)
        return {
            "notes": controls.notes(ids, notes),
            "map": figure_values(figures.draw_weights(pair_map, called)),
            "top": figures.listed(pair_map, called, words),
            "example": contents is not None,
        }


def _first(state: Mapping[str, Any]) -> Drawing | None:
    """The map of the example for the address; None if a value is invalid."""
    if controls.complaints(FIELDS, state):
        return None
    chosen = controls.values(FIELDS, state)
    call, called = _call(None, None, causal=chosen["causal"] == "yes")
    return figures.draw_weights(_map(call, chosen), called)


def _map(call: CallFile, chosen: Mapping[str, Any]) -> PairMap:
    with one_core():
        return call.map_of(chosen["query"], chosen["head"])


def _call(contents: object, name: object, *, causal: bool) -> tuple[CallFile, str]:
    """The call of the file or of the example, and its name for captions."""
    if contents is None:
        call = example.example()
        return CallFile(call.query, call.keys, {**call.options, "is_causal": causal}, saved=False), example.NAME
    return read(decoded(contents), is_causal=causal), str(name)[:80]
