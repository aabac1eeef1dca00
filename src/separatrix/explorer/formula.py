"""A Dash component for ``math`` elements, which Dash does not have."""

from __future__ import annotations

from dash.development.base_component import Component


class FormulaElement(Component):
    """A formula in MathML; ``assets/formula.js`` creates its elements one by one, so that text cannot become markup."""

    _namespace = "separatrix_explorer"
    _type = "Formula"

    def __init__(self, mathml: str) -> None:
        self._children_props = []
        self._base_nodes = []
        self._prop_names = ["mathml"]
        self._valid_wildcard_attributes = []
        self.available_properties = ["mathml"]
        self.available_wildcard_properties = []
        super().__init__(mathml=mathml)  # type: ignore[no-untyped-call]
