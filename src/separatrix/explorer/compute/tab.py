"""The tab Compute: the algorithm of order-k attention for the reader's n, d, B, k and tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, ctx, dcc, html
from dash.dependencies import Input, Output
from dash.development.base_component import Component

from separatrix.errors import SeparatrixError
from separatrix.explorer import controls
from separatrix.explorer.address import compares
from separatrix.explorer.alerts import callback_with_alert, unchanged
from separatrix.explorer.attributes import attributes
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
from separatrix.explorer.comparison import comparison
from separatrix.explorer.compute import plan_table, sample_certificate, upload_panel
from separatrix.explorer.compute.fields import FIELDS, settings_of
from separatrix.explorer.compute.machine_speed import speeds
from separatrix.explorer.compute.phase_diagram import HEIGHT, phase
from separatrix.explorer.context import Context
from separatrix.report.theme import Drawing

__all__ = ["COMPARES", "FIELDS", "TITLE", "layout", "register"]

TITLE = "Compute"
TAB = "compute"
COMPARES = True
_LEAD = (
    r"Exact attention of order $k$ takes time $n^k$. If the entries of queries and keys are at most $B$, near-linear "
    r"attention takes time linear in $n$ and in its rank, which grows with $B$. Move $B$ to the right: from some value "
    r"on, exact attention is cheaper. The theorems put that border at $B$ of order $(\ln n)^{1/k}$."
)


_TRIES = {
    "a million tokens": {"n": "1e6", "d": "8", "B": "0.9", "k": "3", "tolerance": "0.00001"},
    "ordinary attention": {"n": "1e6", "d": "64", "B": "1", "k": "2", "tolerance": "0.001"},
    "at the border of the theorems": {"n": "1e6", "d": "14", "B": "2.4", "k": "3", "tolerance": "0.001"},
    "beyond the border": {"n": "1e6", "d": "14", "B": "4", "k": "3", "tolerance": "0.001"},
    "order 5": {"n": "1e6", "d": "8", "B": "0.8", "k": "5", "tolerance": "0.001"},
}
"""Settings to begin with."""


def layout(state: Mapping[str, str], context: Context) -> Component:
    """The controls on the left (on a phone above); the results on the right."""
    both = compares(state)
    results = [
        html.Div([controls.alert("compute-alert"), controls.alert("phase-alert")]),
        html.Section(id="compute-plan", **attributes(aria_label="The plan", aria_live="polite")),
        html.Div(
            figure_card("phase", title="Which method is cheaper", height=HEIGHT, first=lambda: _phase(state)),
            className="first",
        ),
        _sample(),
        html.Section([html.H3("Code"), copy_card("compute")], **attributes(aria_label="Code")),
        upload_panel.layout(),
    ]
    left = controls.settings(TAB, FIELDS, state, differs=("k", ("2", "3")))
    tries = controls.tries(TAB, FIELDS, _TRIES)
    return controls.page(_LEAD, left, results, "split both" if both else "split", tries)


def _sample() -> Component:
    return html.Section(
        [
            html.H3("An example of a certificate"),
            html.P(
                "A plan forecasts the error; a certificate bounds it. The planned method runs on a few random tokens "
                "with entries up to B, and its certified error is shown beside the true error.",
                className="note",
            ),
            html.Button("Run a sample", id="sample-run", type="button"),
            controls.alert("sample-alert"),
            dcc.Loading(html.Div(id="sample-found", **attributes(aria_live="polite")), type="dot"),
        ],
        **attributes(aria_label="An example of a certificate"),
    )


def _phase(state: Mapping[str, Any]) -> Drawing | None:
    """The diagram for the settings of the controls; None where a value is not valid."""
    settings = settings_of(state, {})
    return None if settings is None else phase(settings)


def register(app: Dash, context: Context) -> None:
    """Register the callbacks: the plan follows every control; the sample and the file are run on request."""
    outputs = {
        "notes": controls.notes_output(TAB),
        "plan": Output("compute-plan", "children"),
        "copy": copy_outputs("compute"),
    }

    @callback_with_alert(app, "compute-alert", outputs, controls.reads(TAB))
    def show(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        notes: dict[str, Any] = {}
        settings = settings_of(controls.state_of(texts, ids), notes)
        answer = {**unchanged(outputs), "notes": controls.notes(ids, notes)}
        if settings is None:
            return {**answer, "plan": html.P(INVALID, className="alert"), "copy": no_copy()}
        answer["copy"] = {
            "python": plan_table.python(settings),
            "command": "\n".join(plan_table.command(setting) for setting in settings),
        }
        try:
            plans = [plan_table.planned(setting) for setting in settings]
        except SeparatrixError as error:
            return {**answer, "plan": html.P(str(error), className="alert", role="alert")}
        answer["plan"] = comparison(plan_table.table(plans, speeds()), "The plan for all inputs with entries up to B.")
        return answer

    @callback_with_alert(app, "phase-alert", {"phase": figure_outputs("phase")}, controls.reads(TAB))
    def show_phase(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        """Draw the diagram separately from the plan, since the first diagram of an order takes longer."""
        drawing = _phase(controls.state_of(texts, ids))
        return {"phase": earlier_figure("phase") if drawing is None else figure_values(drawing)}

    @callback_with_alert(
        app,
        "sample-alert",
        {"found": Output("sample-found", "children")},
        {"clicks": Input("sample-run", "n_clicks"), **controls.reads(TAB)},
        on_error={"found": ""},
    )
    def sample(clicks: int | None, texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        """Run the sample when the tab is opened and when its button is pressed; remove it when a setting changes."""
        if isinstance(ctx.triggered_id, dict):
            return {"found": html.P("The settings have changed: run the sample again.", className="note")}
        settings = settings_of(controls.state_of(texts, ids), {})
        if settings is None:
            raise SeparatrixError(INVALID)
        samples = [sample_certificate.sampled(setting) for setting in settings]
        of = " and ".join(
            f"d = {setting.d}, B = {setting.bound:g}, k = {setting.order}" for setting in dict.fromkeys(settings)
        )
        return {"found": comparison(sample_certificate.rows(samples), f"Entries drawn uniformly from [-B, B]; {of}.")}

    upload_panel.register(app, controls.holds(TAB))
