"""The lower half of the tab Learn: start, watch and stop a training run; see stored runs with their W and V."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, ctx, dcc, html, no_update
from dash.dependencies import Input, Output, State
from dash.development.base_component import Component

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer import controls
from separatrix.explorer.alerts import callback_with_alert, unchanged
from separatrix.explorer.attributes import attributes
from separatrix.explorer.cards import copy_card, figure_card, figure_outputs, figure_values
from separatrix.explorer.context import Context
from separatrix.explorer.learn import figures
from separatrix.explorer.learn.run_choices import CHECKPOINTS
from separatrix.explorer.learn.run_fields import BESIDE, NEW, RUN, STEP, asked, beside_names
from separatrix.explorer.learn.training_runs import TrainingRun, known, listed, read_run
from separatrix.explorer.learn.training_start import Starter
from separatrix.explorer.learn.training_state import FINISHED, RunStatus, run_status

TAB = "learn"
TICK_MILLISECONDS = 1000
_BESIDE = controls.field_id(TAB, BESIDE.name)
_RUN, _STEP = controls.field_id(TAB, RUN.name), controls.field_id(TAB, STEP.name, slides=True)

_LEAD = (
    "A run trains the transformer with stochastic positional encodings, as ",
    html.Code("separatrix train selection"),
    " does: the block of W that acts on encodings and the block of V that acts on tokens become multiples of the "
    "identity. A run stops when the explorer does, and can be resumed from its last checkpoint.",
)


def layout(state: Mapping[str, str], context: Context) -> Component:
    """The layout: the controls of a new run on the left, the selected run on the right."""
    wanted = state[RUN.name]
    names, missing = _names(context, wanted)
    value = wanted if wanted in names else next(iter(names), None)
    beside = [name for name in beside_names(state[BESIDE.name]) if name in names]
    new = html.Fieldset(
        [html.Legend("A new run"), *(controls.control(TAB, field, state[field.name]) for field in NEW)],
        className="setting alone",
    )
    begin = html.Button("Start this run", id="run-start", type="button", className="primary")
    chooser = html.Div(
        [
            html.Label(["Run", dcc.Dropdown(_options(names), value, id=_RUN, className="chooser",
                                            clearable=False, placeholder="No runs yet")]),
            html.Div(id={"kind": "note", "tab": TAB, "of": RUN.name}, className="notes"),
            html.Label(["Compare with", dcc.Dropdown(_options(names), beside, id=_BESIDE, className="chooser",
                                                     multi=True, placeholder="Other runs")]),
            html.Div(id={"kind": "note", "tab": TAB, "of": BESIDE.name}, className="notes"),
        ],
        className="choosers",
    )  # fmt: skip
    watched = [
        chooser,
        html.Div(
            [
                html.Div(missing, role="alert", className="alert"),
                *(controls.alert(id) for id in ("run-alert", "act-alert", "steps-alert", "weights-alert")),
            ]
        ),
        html.Div(id="run-status", className="status"),
        html.Div(
            [
                html.Button("Stop it", id="run-stop", type="button", hidden=True),
                html.Button("Resume", id="run-go-on", type="button", hidden=True),
            ]
        ),
        html.Div([figure_card("run-losses", title="Losses and cosines", height=560)], id="run-figures", hidden=True),
        html.Div(
            [controls.control(TAB, STEP, state[STEP.name]), figure_card("run-weights", title="W and V", height=640)],
            id="run-matrices",
            hidden=True,
        ),
    ]
    return html.Section(
        [
            html.H2("Training runs"),
            html.P([*_LEAD], className="note"),
            html.Div(
                [
                    html.Div([new, begin, html.H3("Code", className="below"), copy_card("run")], className="controls"),
                    html.Div(watched, className="results"),
                ],
                className="split",
            ),
            dcc.Interval(id="run-tick", interval=TICK_MILLISECONDS, max_intervals=0),
            dcc.Store(id="run-acted"),
            dcc.Store(id="run-kept"),
        ],
        **attributes(aria_label="Training runs"),
    )


def _names(context: Context, wanted: str) -> tuple[dict[str, str], str]:
    """The runs of the store, and an error message if it cannot be read or does not have the run `wanted`."""
    try:
        names = listed(context.store)
    except SeparatrixError as error:
        return {}, str(error)
    return names, f"run: there is no run {wanted[:40]!r} here." if wanted and wanted not in names else ""


def _options(names: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"label": label, "value": name} for name, label in names.items()]


def register(app: Dash, context: Context) -> None:
    """Register the callbacks of the buttons, of the selected run and of its weights at the selected step."""
    starter = Starter(context.store)
    chosen = {"name": Input(_RUN, "value")}
    moments = {"tick": Input("run-tick", "n_intervals"), "acted": Input("run-acted", "data")}
    _register_acts(app, context, starter)
    _register_steps(app, context, chosen)

    outputs = {
        "status": Output("run-status", "children"),
        "stop": Output("run-stop", "hidden"),
        "go_on": Output("run-go-on", "hidden"),
        # Allow one more tick, so that the next tick comes after this response and requests do not accumulate.
        "ticks": Output("run-tick", "max_intervals"),
        "kept": Output("run-kept", "data"),
        "hidden": Output("run-figures", "hidden"),
        "losses": figure_outputs("run-losses"),
    }

    beside = {"beside": Input(_BESIDE, "value")}

    @callback_with_alert(app, "run-alert", outputs, {**chosen, **beside, **moments, "kept": State("run-kept", "data")})
    def look(name: Any, beside: object, tick: int | None, acted: object, kept: object) -> Mapping[str, Any]:
        name = RUN.read(name or "")
        if not name:
            return {**unchanged(outputs), "status": html.P("There are no runs yet: start one.", className="note")}
        run = read_run(context.store, name)
        stands = status_of(context, name, run)
        answer = {
            **unchanged(outputs),
            "status": status(run, stands),
            "stop": not stands.alive,
            "go_on": not stands.resumable,
            "ticks": (tick or 0) + stands.alive,
            "hidden": not run.drawable,
        }
        if kept != (now := [name, len(run.kept)]):
            answer["kept"] = now
        if run.drawable:
            along = [read_run(context.store, other_name) for other_name in beside_names(beside) if other_name != name]
            answer["losses"] = figure_values(figures.losses(run, along))
        return answer

    drawn = {"hidden": Output("run-matrices", "hidden"), "weights": figure_outputs("run-weights")}
    step = {"at": Input(_STEP, "value"), "kept": Input("run-kept", "data")}

    @callback_with_alert(app, "weights-alert", drawn, {**chosen, **step})
    def matrices(name: Any, at: object, kept: object) -> Mapping[str, Any]:
        name = RUN.read(name or "")
        run = read_run(context.store, name) if name else None
        if run is None or not run.kept:
            return {**unchanged(drawn), "hidden": True}
        step, W, V = run.at(STEP.read(at))
        return {"hidden": False, "weights": figure_values(figures.weights(step, W, V, run.title))}


def _register_acts(app: Dash, context: Context, starter: Starter) -> None:
    clicks = {action: Input(f"run-{action.replace('_', '-')}", "n_clicks") for action in ("start", "stop", "go_on")}
    outputs = {
        "acted": Output("run-acted", "data"),
        "name": Output(_RUN, "value"),
        "options": Output(_RUN, "options"),
        "beside": Output(_BESIDE, "options"),
    }

    @callback_with_alert(
        app, "act-alert", outputs, {"clicks": clicks, **controls.holds(TAB)}, prevent_initial_call=True
    )
    def act(
        clicks: Mapping[str, int | None], texts: Sequence[Any], ids: Sequence[Mapping[str, str]]
    ) -> Mapping[str, Any]:
        state = controls.state_of(texts, ids)
        name = str(state.get(RUN.name) or "")
        count = sum(clicked or 0 for clicked in clicks.values())
        if not count:  # the buttons were added to the page, but none was clicked
            return unchanged(outputs)  # type: ignore[no-any-return]
        match ctx.triggered_id:
            case "run-start":
                name = starter.start(asked(state))
                options = _options(listed(context.store))
                return {"acted": count, "name": name, "options": options, "beside": options}
            case "run-stop":
                starter.stop(name)
            case "run-go-on":
                starter.go_on(name)
        return {**unchanged(outputs), "acted": count}


def _register_steps(app: Dash, context: Context, chosen: Mapping[str, Any]) -> None:
    """The end of the slider is the last step of the run."""
    slider = {"kind": "slider", "tab": TAB, "of": STEP.name}
    outputs = {
        "scale": Output({**slider, "kind": "scale"}, "data"),
        "most": Output(slider, "max"),
        "at": Output(_STEP, "value"),
    }
    steps = {"at": State(_STEP, "value")}

    @callback_with_alert(app, "steps-alert", outputs, {**chosen, **steps})
    def fit(name: Any, at: object) -> Mapping[str, Any]:
        name = RUN.read(name or "")
        if not name:
            return unchanged(outputs)  # type: ignore[no-any-return]
        steps = read_run(context.store, name).steps or 1
        every = max(1, steps // CHECKPOINTS)
        count = -(-steps // every)
        scale = {"low": 0, "high": steps, "log": False, "step": str(every), "steps": count, "label": STEP.label}
        # A run that was selected or started on the page is shown at its last step; an address may name an earlier step.
        ends = ctx.triggered_id is not None or _beyond(at, steps)
        return {"scale": scale, "most": count, "at": str(steps) if ends else no_update}


def _beyond(at: object, steps: int) -> bool:
    try:
        return bool(STEP.read(at) > steps)
    except ArgumentError:
        return False


def status_of(context: Context, name: str, run: TrainingRun) -> RunStatus:
    """The status of a run by its name; it is finished if its last step is recorded, by any command."""
    if not name.startswith("run-"):
        return RunStatus("saved", "")
    noted = run_status(context.store, known(context.store, name))
    all_done = bool(run.step) and run.step[-1] == run.steps
    return FINISHED if all_done and not noted.alive else noted


def status(run: TrainingRun, stands: RunStatus) -> Component:
    """The status of a run: a word, its progress, and its last values."""
    done = run.step[-1] if run.step else 0
    far = f"step {done:,} of {run.steps:,}" if run.steps else "it begins"
    last = {name: line[-1] for name, line in run.lines.items() if line and line[-1] is not None}
    numbers = "; ".join(f"{figures.called(name)}: {value:.4g}" for name, value in last.items())
    bare = (
        "The run has recorded no losses and no cosines." if run.step and not run.drawable and not stands.alive else None
    )
    return html.Div(
        [
            html.P(
                [html.Span(stands.word, className=f"badge {stands.word.replace(' ', '-')}", role="status"), " ", far]
            ),
            html.Progress(value=str(done), max=str(max(run.steps, 1)), **attributes(aria_label="Progress of the run")),
            html.P(" ".join(filter(None, [stands.message, run.stopped, bare])), className="note"),
            html.P(numbers, className="note") if numbers else html.Span(),
        ]
    )
