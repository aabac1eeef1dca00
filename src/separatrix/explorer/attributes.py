"""Attributes of HTML that Python has no names for."""

from __future__ import annotations

from typing import Any


def attributes(**names: str) -> dict[str, Any]:
    """aria- and data- attributes, to be passed on with ``**``.

    >>> attributes(aria_label="Tabs", data_tab="learn")
    {'aria-label': 'Tabs', 'data-tab': 'learn'}
    """
    return {name.replace("_", "-"): value for name, value in names.items()}
