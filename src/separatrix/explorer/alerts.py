"""Callbacks whose errors are shown as messages in an alert, without a traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from dash import Dash, ctx, no_update
from dash.dependencies import Output

from separatrix.errors import SeparatrixError

log = logging.getLogger("separatrix.explorer")

OURS = "This is a bug in Separatrix, not in your input: the terminal that runs `separatrix explore` shows the details."


def callback_with_alert(
    app: Dash,
    alert: str,
    outputs: Mapping[str, Any],
    inputs: Mapping[str, Any],
    *,
    on_error: Mapping[str, Any] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Mapping[str, Any]]], Callable[..., Any]]:
    """Register a callback whose errors become the text of the element `alert` (made by `controls.alert`).

    `outputs` and `inputs` are dictionaries, as in Dash: the function is called with the names of the inputs as keyword
    arguments and returns a mapping with the names of the outputs. After an error the outputs have the values of
    `on_error`, and the others are unchanged; after a success the alert is empty. Two callbacks must not share an alert.
    """

    def register(function: Callable[..., Mapping[str, Any]]) -> Callable[..., Any]:
        @wraps(function)
        def answer(**named: Any) -> dict[str, Any]:
            try:
                return {"alert": "", "answer": dict(function(**named))}
            except SeparatrixError as error:
                message = str(error)
            except Exception:
                log.exception("A callback of the explorer failed: %s", function.__name__)
                message = OURS
            # The number of outputs that a pattern matches is known only from the request.
            return {"alert": message, "answer": {**unchanged(ctx.outputs_grouping["answer"]), **(on_error or {})}}

        wanted = {"alert": Output(alert, "children"), "answer": dict(outputs)}
        app.callback(output=wanted, inputs=dict(inputs), **options)(answer)
        return answer

    return register


def unchanged(outputs: Any) -> Any:
    """`no_update` for each output, in the structure in which the outputs are declared or requested."""
    if isinstance(outputs, Mapping) and not {"id", "property"} <= outputs.keys():
        return {name: unchanged(output) for name, output in outputs.items()}
    if isinstance(outputs, Sequence):
        return [unchanged(output) for output in outputs]
    return no_update
