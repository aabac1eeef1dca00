"""The tab Learn: how a one-layer transformer learns to select tokens, in closed form and in training runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, html
from dash.dependencies import Output
from dash.development.base_component import Component

from separatrix.errors import ArgumentError
from separatrix.explorer import controls, maps
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
from separatrix.explorer.context import Context
from separatrix.explorer.fields import decimal, whole
from separatrix.explorer.learn import dynamics, figures, run_fields, run_panel, sweep
from separatrix.explorer.learn.dynamics import Descended
from separatrix.explorer.learn.run_fields import PAPER
from separatrix.report.theme import Drawing

TITLE = "Learn"
TAB = "learn"
COMPARES = True

DYNAMICS = (
    whole("T", "T", "The length of a sequence.", f"{PAPER}, Section 2", low=3, high=1000, default="20", log=True),
    whole(
        "q",
        "q",
        "The number of tokens in a subset: the target is their mean.",
        f"{PAPER}, Section 2",
        low=1,
        high=999,
        default="2",
        log=True,
    ),
    whole("d", "d", "The dimension of a token.", f"{PAPER}, Section 2", low=1, high=64, default="2"),
    decimal(
        "eta",
        "η",
        "The learning rate of gradient descent on the population loss.",
        f"{PAPER}, Theorem 3.1",
        low="0.00001",
        high="1",
        default="0.0125",
        places=8,
        log=True,
    ),
    whole(
        "steps",
        "steps",
        f"The number of updates. The first {dynamics.LONGEST:,} are computed by the recursion, the others by the law.",
        f"{PAPER}, Theorem 3.1 and equation (6)",
        low=10,
        high=10**9,
        default="1e6",
        log=True,
    ),
)
SHARED = (sweep.ALONG, sweep.ACROSS)
FIELDS = (*DYNAMICS, *SHARED, *run_fields.FIELDS)

_LEAD = (
    r"Two numbers describe the training: $\alpha$, the weight of the value matrix, and $C$, the sharpness of the "
    "attention. The loss stays on a plateau until $C$ has grown, and then falls as $1/t$. A larger $T$ makes the "
    "plateau longer."
)


_TRIES = {
    "a short sequence": {"T": "20", "q": "2", "d": "2", "eta": "0.0125", "steps": "1e6"},
    "the paper's sizes": {"T": "200", "q": "3", "d": "5", "eta": "0.002", "steps": "1e8"},
    "a long plateau": {"T": "1000", "q": "2", "d": "2", "eta": "0.0125", "steps": "1e9"},
    "a map of T and η": {"T": "60", "q": "2", "d": "2", "eta": "0.0125", "steps": "1e6", "across": "eta"},
    "a learning rate beyond the theorem": {"T": "20", "q": "2", "d": "2", "eta": "0.5", "steps": "1e5"},
}
"""Settings to begin with."""


def layout(state: Mapping[str, str], context: Context) -> Component:
    """The layout: the dynamics with their controls, the loss against a parameter, and below them the training runs."""
    both = compares(state)
    results = [
        controls.alert("learn-alert"),
        html.Div(
            figure_card("dynamics", title="The dynamics in closed form", height=720, first=lambda: _first(state)),
            className="first",
        ),
        html.Div(maps.section(TAB, SHARED, state, "loss-along", "Loss at the end of training")),
        html.Section(id="learn-summary", **attributes(aria_label="In numbers", aria_live="polite")),
        html.Section([html.H3("Code"), copy_card("learn")], **attributes(aria_label="Code")),
    ]
    kind = "split both" if both else "split"
    left = controls.settings(TAB, DYNAMICS, state, differs=("T", ("60", "20")))
    dynamics_part = controls.page(_LEAD, left, results, kind, controls.tries(TAB, FIELDS, _TRIES))
    return html.Div([dynamics_part, run_panel.layout(state, context)])


def register(app: Dash, context: Context) -> None:
    """Register the callbacks of the dynamics, the curve and the training runs."""
    outputs = {
        "run_copy": copy_outputs("run"),
        "notes": controls.notes_output(TAB),
        "summary": Output("learn-summary", "children"),
        "dynamics": figure_outputs("dynamics"),
        "copy": copy_outputs("learn"),
    }

    @callback_with_alert(app, "learn-alert", outputs, controls.reads(TAB))
    def show(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        state = controls.state_of(texts, ids)
        notes: dict[str, Any] = {}
        runs = controls.each_setting(DYNAMICS, state, _descended, _broken, notes)
        new = _new_run(state, notes)
        answer = {**unchanged(outputs), "notes": controls.notes(ids, notes), "run_copy": new or no_copy()}
        if runs is None:
            invalid = html.P(INVALID, className="alert")
            return {**answer, "summary": invalid, "dynamics": earlier_figure("dynamics"), "copy": no_copy()}
        settings = [run.of for run in runs]
        answer["dynamics"] = figure_values(figures.dynamics(runs))
        answer["summary"] = comparison(dynamics.summary(runs), "The dynamics in numbers.")
        answer["copy"] = {"python": dynamics.python(settings), "command": dynamics.command(settings)}
        return answer

    curve = {"along": figure_outputs("loss-along")}

    @callback_with_alert(app, maps.alert_id(TAB), curve, controls.reads(TAB))
    def draw(texts: Sequence[Any], ids: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        state = controls.state_of(texts, ids)
        shared = controls.values(SHARED, state)
        settings = controls.each_setting(DYNAMICS, state, dynamics.descent, lambda _: {}, {})
        if settings is None:
            return {"along": earlier_figure("loss-along")}  # `show` reports the errors
        along, across = shared["along"], shared["across"]
        if maps.is_map(settings, along, across):
            return {"along": figure_values(sweep.plane(settings[0], along, across))}
        return {"along": figure_values(sweep.along(settings, along))}

    run_panel.register(app, context)


def _first(state: Mapping[str, Any]) -> Drawing | None:
    """The figure of the dynamics for the address; None if a value is invalid."""
    runs = controls.each_setting(DYNAMICS, state, _descended, _broken, {})
    return None if runs is None else figures.dynamics(runs)


def _new_run(state: Mapping[str, Any], notes: dict[str, Any]) -> dict[str, str] | None:
    """The program and the command of the run with the values of the controls, or None if a value is invalid."""
    wrong = controls.complaints((*run_fields.NEW, run_fields.STEP), state)
    if not wrong:
        try:
            asked = run_fields.asked(state)
            return {"python": asked.python(), "command": asked.command()}
        except ArgumentError as error:
            # Visitors choose the width of the encodings, not the threshold on their dot products.
            wrong = {error.argument if error.argument.startswith("run_") else "run_d_e": str(error)}
    notes.update(controls.refusals(wrong))
    return None


def _descended(read: Mapping[str, Any]) -> Descended:
    return dynamics.descended(dynamics.descent(read))


def _broken(descended: Descended) -> dict[str, Component]:
    return {name: html.P(sentence, className="broken") for name, sentence in descended.of.broken().items()}
