"""The scripts of the page, in the order and the form in which a browser draws the first figure soonest.

Plotly is most of what a browser has to compile. A browser reads a script while it comes over the network, beside its
other work, but leaves functions for later unless they are called at once. All of Plotly is one such function, passed to
another that calls it: the browser would read it twice, the second time while the page waits. In parentheses it is known
as a function that is called at once, and read only the first time.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256

PLOTLY = "/_dash-component-suites/plotly/package_data/plotly.min.js"
"""Where Dash asks for Plotly's script."""

_BEGINS = ': this, () => {\n"use strict";var Plotly='
_ENDS = "\nreturn Plotly;\n}));"


@cache
def plotly_script() -> str:
    """The script of the installed Plotly, with its one function in parentheses."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    return called_at_once(get_plotlyjs())


@cache
def plotly_hash() -> str:
    """The hash of this script."""
    return sha256(plotly_script().encode()).hexdigest()


def called_at_once(script: str) -> str:
    """Put the function that is all of Plotly in parentheses; a script of another form stays as it is, and is slower.

    >>> called_at_once("(function(root, f) {f()} (self ? self : this, " + _BEGINS[8:] + "1;" + _ENDS)
    '(function(root, f) {f()} (self ? self : this, (() => {\\n"use strict";var Plotly=1;\\nreturn Plotly;\\n})));'
    """
    if script.count(_BEGINS) != 1 or not script.endswith(_ENDS):
        return script
    return script.replace(_BEGINS, _BEGINS.replace("() =>", "(() =>")).removesuffix(_ENDS) + _ENDS.replace("}", "})")
