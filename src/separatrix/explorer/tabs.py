"""The tabs, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dash import Dash
from dash.development.base_component import Component

from separatrix.explorer.attend import tab as attend_tab
from separatrix.explorer.claims import tab as claims_tab
from separatrix.explorer.compute import tab as compute_tab
from separatrix.explorer.context import Context
from separatrix.explorer.fields import Field
from separatrix.explorer.learn import tab as learn_tab
from separatrix.explorer.separate import tab as separate_tab

NAMES = ("separate", "compute", "attend", "learn", "claims")


class Tab(Protocol):
    """The module ``tab`` in the package of a tab.

    `COMPARES` says whether two settings can be compared. `layout` gets valid texts for all of its fields.
    """

    @property
    def TITLE(self) -> str: ...

    @property
    def FIELDS(self) -> Sequence[Field]: ...

    @property
    def COMPARES(self) -> bool: ...

    def layout(self, state: Mapping[str, str], context: Context) -> Component: ...

    def register(self, app: Dash, context: Context) -> None: ...


def tabs() -> dict[str, Tab]:
    """The tabs by name, in the order of the page."""
    return {
        "separate": separate_tab,
        "compute": compute_tab,
        "attend": attend_tab,
        "learn": learn_tab,
        "claims": claims_tab,
    }
