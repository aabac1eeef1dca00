"""Callbacks whose errors are shown as a sentence in an alert, never as a traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from dash import Dash, ctx, no_update
from dash.dependencies import Output

from separatrix.errors import SeparatrixError

log = logging.getLogger("separatrix.explorer")

OURS = "This is a fault of ours, not of your numbers: the terminal that runs `separatrix explore` tells the details."


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

    `outputs` and `inputs` are by name, as Dash takes them: the function is called with the inputs' names and answers
    with a mapping of the outputs' names. After an error the outputs have the values of `on_error`, and stay as they
    were where it names none; after a success the sentence is gone. Two callbacks must not share an alert.
    """

    def register(function: Callable[..., Mapping[str, Any]]) -> Callable[..., Any]:
        @wraps(function)
        def answer(**named: Any) -> dict[str, Any]:
            try:
                return {"alert": "", "answer": dict(function(**named))}
            except SeparatrixError as error:
                said = str(error)
            except Exception:
                log.exception("A callback of the explorer failed: %s", function.__name__)
                said = OURS
            # Only the request tells how many outputs a pattern has.
            return {"alert": said, "answer": {**unchanged(ctx.outputs_grouping["answer"]), **(on_error or {})}}

        wanted = {"alert": Output(alert, "children"), "answer": dict(outputs)}
        app.callback(output=wanted, inputs=dict(inputs), **options)(answer)
        return answer

    return register


def unchanged(outputs: Any) -> Any:
    """`no_update` in the shape of the outputs, as they are declared or as a request has them."""
    if isinstance(outputs, Mapping) and not {"id", "property"} <= outputs.keys():
        return {name: unchanged(one) for name, one in outputs.items()}
    if isinstance(outputs, Sequence):
        return [unchanged(one) for one in outputs]
    return no_update
