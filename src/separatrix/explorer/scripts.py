"""Plotly's script in a form that browsers compile faster, so that the first figure is drawn sooner.

Plotly is most of the code of the page. Browsers parse a script in the background while it is downloaded, but defer the
compilation of functions unless they are called immediately. All of Plotly is one function that is passed to another
function, so it would be parsed twice, the second time while the page waits. In parentheses the function is taken for
one that is called immediately, and is compiled the first time.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256

PLOTLY = "/_dash-component-suites/plotly/package_data/plotly.min.js"
"""The path from which Dash loads Plotly's script."""

_BEGINS = ': this, () => {\n"use strict";var Plotly='
_ENDS = "\nreturn Plotly;\n}));"


@cache
def plotly_script() -> str:
    """The script of the installed Plotly, with its function in parentheses."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    return called_at_once(get_plotlyjs())


@cache
def plotly_hash() -> str:
    """The SHA-256 of this script."""
    return sha256(plotly_script().encode()).hexdigest()


def called_at_once(script: str) -> str:
    """Put the function that contains Plotly in parentheses; scripts of another form are unchanged, and slower.

    >>> called_at_once("(function(root, f) {f()} (self ? self : this, " + _BEGINS[8:] + "1;" + _ENDS)
    '(function(root, f) {f()} (self ? self : this, (() => {\\n"use strict";var Plotly=1;\\nreturn Plotly;\\n})));'
    """
    if script.count(_BEGINS) != 1 or not script.endswith(_ENDS):
        return script
    return script.replace(_BEGINS, _BEGINS.replace("() =>", "(() =>")).removesuffix(_ENDS) + _ENDS.replace("}", "})")
