"""The map of the tab Separate: success over two parameters at once, and where the reader's setting lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from separatrix.explorer.maps import MapAxis, Quantity, across_field, draw_map, some
from separatrix.explorer.separate.figures import SYMBOLS, grid
from separatrix.explorer.separate.probabilities import make
from separatrix.report.theme import Drawing

ACROSS = across_field(
    "The parameter on the vertical axis: with one, success is drawn as a map of both parameters.",
    "beyond the paper, which varies one parameter at a time",
    SYMBOLS,
)


def plane(values: Mapping[str, Any], along: str, across: str) -> Drawing:
    """Draw the success probability of softmax over two parameters; the others have the values of the setting."""
    x, y = (
        MapAxis(name, SYMBOLS[name], some(grid(values, name)), values[name], log=name in ("n", "m"))
        for name in (along, across)
    )
    z = [[make({**values, along: a, across: b}).success_probability().success for a in x.values] for b in y.values]
    most = max(max(row) for row in z)
    share = sum(success >= 0.9 for row in z for success in row) / (len(x.values) * len(y.values))
    text = (
        f"The probability of success with softmax over {x.symbol} and {y.symbol}: at most {most:.3g}, and "
        f"0.9 or more on {share:.0%} of the map. The star is your setting."
    )
    return draw_map(x, y, z, Quantity("success"), text)
