"""A figure as the page holds it: what to draw, the words for those who do not see it, and its numbers as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from separatrix.claims.ledger import Found
from separatrix.report.markup import Html, tag
from separatrix.report.packing import packed


class Drawn(Protocol):
    """What a function of `report/figures.py` gives: a Plotly figure, its text alternative, its numbers as CSV."""

    @property
    def figure(self) -> Any: ...

    @property
    def text(self) -> str: ...

    def csv(self) -> str: ...


PLOTLY_HEIGHT = 450
"""The height of a figure that does not say its own."""

Figure = Callable[[Sequence[Found]], Drawn]
Figures = Mapping[str, Figure]


@dataclass(frozen=True)
class FigurePanel:
    """A figure's name, its text alternative, its traces and layout as JSON, its numbers as CSV, and its function.

    `height` is kept free for it, in pixels, until it is drawn.
    """

    name: str
    words: str
    json: str
    csv: str
    height: int
    function: Figure

    @cached_property
    def content(self) -> str:
        """The drawing and its numbers as one text for the page's script."""
        return f'{{"csv":{json.dumps(self.csv)},"drawing":{self.json}}}'

    @cached_property
    def key(self) -> str:
        """The name of the content on the page: claims that rest on the same cells show the same drawing."""
        return sha256(self.content.encode()).hexdigest()[:16]


def drawings(panels: Iterable[FigurePanel]) -> list[Html]:
    """The contents of the figures, each once, packed, for the script to look up by their keys."""
    contents = {panel.key: panel.content for panel in panels}
    return [
        tag("script", Html(packed(content)), type="text/plain", id=f"drawing-{key}", class_="drawing")
        for key, content in contents.items()
    ]


def panel(name: str, function: Figure, found: Sequence[Found]) -> FigurePanel:
    """The parts of a figure for the page, without the template, which the page has once, in the reader's colours."""
    from plotly.io import to_json  # type: ignore[import-untyped]

    drawn = function(found)
    if not drawn.text.strip():
        raise TypeError(f"the figure {name!r} has no text alternative")
    content = drawn.figure.to_dict()
    content["layout"].pop("template", None)
    height = int(content["layout"].get("height", PLOTLY_HEIGHT))
    shown = to_json({**content, "data": _rounded(content["data"])}, validate=False)
    return FigurePanel(name, drawn.text, shown, drawn.csv(), height, function)


def _rounded(value: Any) -> Any:
    """What is drawn, in numbers of five digits: no eye sees more, and the page is shorter. The CSV has them all.

    >>> _rounded({"x": [1 / 3, 12, "n", None], "y": (2e-300,)})
    {'x': [0.33333, 12, 'n', None], 'y': [2e-300]}
    """
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
