"""Dash components by the names of their HTML elements, and attributes whose names are not Python identifiers."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from separatrix.explorer.formula import FormulaElement


def attributes(**names: str) -> dict[str, Any]:
    """``aria-`` and ``data-`` attributes, to be passed with ``**``.

    >>> attributes(aria_label="Tabs", data_tab="learn")
    {'aria-label': 'Tabs', 'data-tab': 'learn'}
    """
    return {name.replace("_", "-"): value for name, value in names.items()}


def element(name: str, /, *children: Component | str | None, **attributes: str | int | bool | None) -> Component:
    """Create a component by the name of its HTML element, with the arguments of `separatrix.report.markup.tag`.

    The child of an element ``math`` is MathML, as `separatrix.report.typeset.mathml` writes it.

    >>> element("p", "a", None, class_="note", aria_hidden="true")
    P(children=['a'], className='note', aria-hidden='true')
    """
    if name == "math":
        return FormulaElement("".join(map(str, children)))
    named = {"className" if key == "class_" else key.rstrip("_").replace("_", "-"): value
             for key, value in attributes.items() if not (value is None or value is False)}  # fmt: skip
    component: Component = getattr(html, name.capitalize())([child for child in children if child is not None], **named)
    return component
