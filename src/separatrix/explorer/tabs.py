"""The tabs, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dash import Dash
from dash.development.base_component import Component

from separatrix.explorer import claims_tab, compute_tab, learn_tab, separate_tab
from separatrix.explorer.context import Context
from separatrix.explorer.fields import Field

NAMES = ("separate", "compute", "learn", "claims")


class Tab(Protocol):
    """A module ``<name>_tab.py``.

    `COMPARES`: whether two settings may stand side by side. `layout` is given good texts for all of its fields.
    """

    TITLE: str
    FIELDS: Sequence[Field]
    COMPARES: bool

    def layout(self, state: Mapping[str, str], context: Context) -> Component: ...

    def register(self, app: Dash, context: Context) -> None: ...


def tabs() -> dict[str, Tab]:
    """Give the tabs by name, in the order of the page."""
    return {"separate": separate_tab, "compute": compute_tab, "learn": learn_tab, "claims": claims_tab}
