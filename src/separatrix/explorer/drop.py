"""The drop area for safetensors files; the page's script rejects other and too large files before uploading."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from separatrix.explorer.attributes import attributes
from separatrix.explorer.context import UPLOAD_BYTES


def drop(id: str) -> Component:
    """A drop area for one file, whose contents and name callbacks read by `id`, and an alert for errors."""
    place = dcc.Upload(
        html.Div([html.Button("Choose a file", type="button", id=f"{id}-choose"), " or drop it here"]),
        id=id,
        className="drop",
        className_active="drop active",
        className_reject="drop",
        style_active={},
        style_reject={},
        accept=".safetensors",
        max_size=UPLOAD_BYTES,
    )
    return html.Div(
        [
            html.Div(place, id=f"{id}-drop", **attributes(data_most=str(UPLOAD_BYTES))),
            html.Div(id=f"{id}-refused", role="alert", className="alert refused"),
        ]
    )
