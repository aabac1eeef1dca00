"""The upload of the tab Compute: where a file is dropped, and the plan for its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, dcc, html, no_update
from dash.dependencies import Input, Output, State
from dash.development.base_component import Component

from separatrix.explorer import controls
from separatrix.explorer.alerts import callback_with_alert
from separatrix.explorer.attributes import attributes
from separatrix.explorer.comparison import comparison
from separatrix.explorer.compute import plan_table
from separatrix.explorer.compute.fields import FIELDS
from separatrix.explorer.compute.upload import decoded, planned_file
from separatrix.explorer.context import UPLOAD_BYTES
from separatrix.explorer.drop import drop

_FILE = (
    "A safetensors file with q, k1, k2, ... of shape (..., length, d) and, if you have them, the values v1, v2, ...; "
    f"up to {UPLOAD_BYTES // 2**20} MiB. It is planned on this machine, at the tolerance ε of the first setting, and "
    "not stored."
)


def layout() -> Component:
    """The drop area, and the place of the plan."""
    return html.Section(
        [
            html.H3("Plan your own tensors"),
            html.P(_FILE, className="note"),
            drop("file"),
            controls.alert("file-alert"),
            dcc.Loading(html.Div(id="file-found", className="of-file", **attributes(aria_live="polite")), type="dot"),
        ],
        **attributes(aria_label="Plan your own tensors"),
    )


def register(app: Dash, fields: Mapping[str, Any]) -> None:
    """Register the callback that plans an uploaded file; `fields` are the inputs for the controls of the tab."""

    @callback_with_alert(
        app,
        "file-alert",
        {"found": Output("file-found", "children")},
        {"contents": Input("file", "contents"), "name": State("file", "filename"), **fields},
        on_error={"found": ""},
        prevent_initial_call=True,
    )
    def plan_file(
        contents: object, name: object, texts: Sequence[Any], ids: Sequence[Mapping[str, str]]
    ) -> Mapping[str, Any]:
        if contents is None:
            return {"found": no_update}
        state = controls.state_of(texts, ids)
        tolerance = next(field for field in FIELDS if field.name == "tolerance").read(state.get("tolerance"))
        plan = planned_file(decoded(contents), float(tolerance))
        return {"found": file_table(plan, str(name)[:80], float(tolerance))}


def file_table(plan: Mapping[str, Any], name: str, tolerance: float) -> Component:
    """The plan of a file at a tolerance, as a table."""
    shapes = ", ".join(f"{tensor} {' x '.join(map(str, shape))}" for tensor, shape in plan["shapes"].items())
    values = "those of the file" if plan["values"] else (
        "none in the file: values of 1 and -1 are used, so that the tolerance is relative to the largest magnitudes"
    )  # fmt: skip
    rows = [
        ("tensors", [shapes]),
        ("order k", [str(plan["order"])]),
        ("largest entry B", [f"{plan['bound']:.4g}"]),
        ("values", [values]),
        ("method", [plan["method"]]),
        ("index set", [plan["index_set"] or "-"]),
        ("rank", ["-" if plan["rank"] is None else plan_table.big(plan["rank"])]),
        ("predicted error", [f"{plan['predicted_error']:.2g}"]),
        ("flops", [f"{plan['flops']:.3g}"]),
        ("working memory", [plan_table.spelled_bytes(plan["bytes"])]),
        ("why", [plan["why"]]),
    ]
    return comparison(rows, f"The plan for {name} at a tolerance of {tolerance:g}.")
