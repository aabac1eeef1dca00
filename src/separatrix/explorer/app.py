"""The page: its header, its tabs, and the state of the view in the URL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dash import ClientsideFunction, Dash, dcc, html
from dash.dependencies import ALL, MATCH, Input, Output, State
from dash.development.base_component import Component
from flask import request

import separatrix
from separatrix.errors import ArgumentError
from separatrix.explorer import address
from separatrix.explorer.alerts import callback_with_alert
from separatrix.explorer.attributes import attributes
from separatrix.explorer.context import Context
from separatrix.explorer.controls import alert
from separatrix.explorer.scripts import PLOTLY
from separatrix.explorer.server import harden
from separatrix.explorer.tabs import Tab, tabs

TITLE = "Separatrix: the explorer"

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/report.css">
{%css%}
</head>
<body>
{%app_entry%}
{%config%}
{%scripts%}
{%renderer%}
<noscript><p>The explorer needs JavaScript. `separatrix report` writes a page that does not.</p>
</noscript>
</body>
</html>"""


def make_app(store: Path, *, pages: Mapping[str, Tab] | None = None) -> Dash:
    """The Dash app of the explorer for a folder of results; `server.bound` serves it.

    `pages` are the tabs by name, all of them if left out.
    """
    context = Context(store)
    pages = tabs() if pages is None else pages
    app = _Page(
        __name__,
        title=TITLE,
        update_title="",
        assets_folder=str(Path(__file__).with_name("assets")),
        index_string=_PAGE,
        serve_locally=True,
        suppress_callback_exceptions=True,
        add_log_handler=False,
        include_pages_meta=False,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = _frame(pages)
    _register(app, context, pages)
    for page in pages.values():
        page.register(app, context)
    harden(app)
    return app


class _Page(Dash):
    """The app, whose page preloads Plotly's script unless it opens at a tab without figures.

    Dash runs the script when the page contains the first figure, and the page shows an outline until then. A
    preloaded script is downloaded and compiled by that time.
    """

    def interpolate_index(self, **parts: str) -> str:  # type: ignore[override]
        if request.args.get("tab") != "claims":
            parts["metas"] = f'<link rel="preload" href="{PLOTLY}" as="script">\n{parts["metas"]}'
        page: str = super().interpolate_index(**parts)  # type: ignore[no-untyped-call]
        return page


def _frame(pages: Mapping[str, Tab]) -> Component:
    buttons = [
        html.Button(
            page.TITLE,
            id={"kind": "tab", "of": name},
            role="tab",
            type="button",
            **attributes(aria_controls="panel", aria_selected="false", data_tab=name),
        )
        for name, page in pages.items()
    ]
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            html.A("Skip to the content", href="#panel", className="skip"),
            html.Header(
                [
                    html.H1("Separatrix"),
                    html.Nav(html.Div(buttons, role="tablist", className="tabs"), **attributes(aria_label="Tabs")),
                ]
            ),
            html.Main(
                [alert("page-alert"), html.Div(id="panel", role="tabpanel", tabIndex=-1)],
                **attributes(aria_busy="false"),
            ),
            html.Footer(
                [
                    f"Separatrix {separatrix.__version__}. The address of this page holds the settings: bookmark it ",
                    "to return to this view. To share it with someone who can reach this machine, add &token= and the ",
                    "token that the terminal printed. Everything is computed on this machine.",
                ]
            ),
            dcc.Store(id="written"),
        ],
        className="explorer",
    )


def _register(app: Dash, context: Context, pages: Mapping[str, Tab]) -> None:
    first = next(iter(pages))
    selected = {
        name: {what: Output({"kind": "tab", "of": name}, what) for what in ("aria-selected", "tabIndex")}
        for name in pages
    }

    @callback_with_alert(
        app,
        "page-alert",
        {"panel": Output("panel", "children"), "selected": selected},
        {"search": Input("url", "search")},
    )
    def show(search: object) -> Mapping[str, Any]:
        """The tab that the URL names, with its state."""
        if not isinstance(search, str | None):
            raise ArgumentError("address", expected="a text", got=type(search).__name__)
        parameters, notes = address.query(search)
        name = parameters.get("tab", first)
        if name not in pages:
            notes = (*notes, f"tab: expected {' or '.join(pages)}, got {name[:40]!r}. {first} is used instead.")
            name, parameters = first, {}
        page = pages[name]
        reading = address.read(parameters, page.FIELDS, compares=page.COMPARES)
        return {
            "panel": [_notes((*notes, *reading.notes)), page.layout(reading.state, context)],
            "selected": {
                tab: {"aria-selected": str(tab == name).lower(), "tabIndex": 0 if tab == name else -1} for tab in pages
            },
        }

    in_browser: Any = app.clientside_callback
    slider, scale = ({"kind": kind, "tab": MATCH, "of": MATCH} for kind in ("slider", "scale"))
    field = {"kind": "field", "tab": MATCH, "of": MATCH, "slides": "yes"}
    in_browser(
        ClientsideFunction("separatrix", "slide"),
        [Output(field, "value"), Output(slider, "value")],
        [Input(field, "value"), Input(slider, "value"), State(scale, "data"), State(slider, "id")],
    )
    every = {"kind": "field", "tab": ALL, "of": ALL, "slides": ALL}
    in_browser(
        ClientsideFunction("separatrix", "write"),
        Output("written", "data"),
        [Input(every, "value"), State(every, "id")],
    )
    in_browser(
        ClientsideFunction("separatrix", "go"),
        Output("url", "search"),
        [Input({"kind": kind, "of": ALL}, "n_clicks") for kind in ("tab", "compare")],
        prevent_initial_call=True,
    )


def _notes(notes: tuple[str, ...]) -> Component:
    """The messages about the URL."""
    if not notes:
        return html.Div()
    return html.Ul([html.Li(note) for note in notes], role="alert", className="alert address")
