"""A figure as it is embedded in the page: its JSON, its text alternative, and its data as CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from separatrix.claims.ledger import CellResult
from separatrix.report.markup import Html, tag
from separatrix.report.packing import packed


class Drawn(Protocol):
    """The return value of a figure function: a Plotly figure, its text alternative, and its data as CSV."""

    @property
    def figure(self) -> Any: ...

    @property
    def text(self) -> str: ...

    def csv(self) -> str: ...


PLOTLY_HEIGHT = 450
"""The default height of a figure in pixels."""

Figure = Callable[[Sequence[CellResult]], Drawn]
Figures = Mapping[str, Figure]


@dataclass(frozen=True)
class FigurePanel:
    """A figure's name, its text alternative, its traces and layout as JSON, its numbers as CSV, and its function.

    `height` is its height in pixels.
    """

    name: str
    words: str
    json: str
    csv: str
    height: int
    function: Figure

    @cached_property
    def content(self) -> str:
        """The figure and its data as one JSON text for the page's script."""
        return f'{{"csv":{json.dumps(self.csv)},"drawing":{self.json}}}'

    @cached_property
    def key(self) -> str:
        """The key of the content on the page, which is the same for claims that show the same figure."""
        return sha256(self.content.encode()).hexdigest()[:16]


def drawings(panels: Iterable[FigurePanel]) -> list[Html]:
    """A script element with the compressed contents of the figures by key, each once."""
    contents = {panel.key: panel.content for panel in panels}
    return [
        tag("script", Html(packed(content)), type="text/plain", id=f"drawing-{key}", class_="drawing")
        for key, content in contents.items()
    ]


def panel(name: str, function: Figure, results: Sequence[CellResult]) -> FigurePanel:
    """Draw a figure for the page, without its template, which the page has once for each colour scheme."""
    from plotly.io import to_json  # type: ignore[import-untyped]

    drawn = function(results)
    if not drawn.text.strip():
        raise TypeError(f"the figure {name!r} has no text alternative")
    content = drawn.figure.to_dict()
    content["layout"].pop("template", None)
    height = int(content["layout"].get("height", PLOTLY_HEIGHT))
    figure_json = to_json({**content, "data": _rounded(content["data"])}, validate=False)
    return FigurePanel(name, drawn.text, figure_json, drawn.csv(), height, function)


def _rounded(value: Any) -> Any:
    """Round the numbers that are drawn to five digits, which makes the page shorter. The CSV has all digits.

    >>> _rounded({"x": [1 / 3, 12, "n", None], "y": (2e-300,)})
    {'x': [0.33333, 12, 'n', None], 'y': [2e-300]}
    """
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
