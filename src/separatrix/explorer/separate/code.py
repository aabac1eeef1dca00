"""A setting of the tab Separate as a Python program and as a command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from separatrix.explorer.separate.fields import FIELDS, MECHANISMS


def python(values: Mapping[str, Any]) -> str:
    """Return a Python program that computes the probabilities of a setting.

    >>> print(python({"weights": "cross", "mechanism": "softmax", "n": 200, "d": 11, "m": 9, "a0": "0.01", "a1": "3"}))
    from separatrix.separation import CrossAttention
    <BLANKLINE>
    setting = CrossAttention(n=200, d=11, m=9, a0="0.01", a1="3", strict=False)
    print(setting.success_probability())
    print("outside:", *setting.broken_hypotheses(), sep="\\n  ")
    """
    cross = values["weights"] == "cross"
    model = "CrossAttention" if cross else "SelfAttention"
    given = [f"{name}={_integer(values[name])}" for name in ("n", "d", "m")]
    given += [f'{name}="{values[name]}"' for name in ("a0", "a1", *(() if cross else ("b", "c", "weights")))]
    construction = f"setting = {model}({', '.join(given)}, strict=False)"
    asked, imports = "setting.success_probability()", [model]
    if values["mechanism"] != "softmax":
        _, function, arguments = MECHANISMS[values["mechanism"]]
        asked = f"outcome(setting, {function}({', '.join(map(json.dumps, arguments))}))"
        imports += ["outcome", function]
    return "\n".join(
        [
            f"from separatrix.separation import {', '.join(imports)}",
            "",
            construction,
            f"print({asked})",
            'print("outside:", *setting.broken_hypotheses(), sep="\\n  ")',
        ]
    )


def command(values: Mapping[str, Any]) -> str:
    """Return the command that computes the probabilities of a setting."""
    cross = values["weights"] == "cross"
    names = [field.name for field in FIELDS if not (cross and field.name in ("b", "c"))]
    return " ".join(["separatrix separate", *(f"--{name} {_text(values[name])}" for name in names)])


def _text(value: Any) -> str:
    return _power(value) if isinstance(value, int) else str(value)


def _power(n: int) -> str:
    text = str(n)
    zeros = len(text) - len(text.rstrip("0"))
    return text if zeros < 6 else f"{text[:-zeros]}e{zeros}"


def _integer(n: int) -> str:
    head, _, zeros = _power(n).partition("e")
    return f"{head} * 10**{zeros}" if zeros and head != "1" else f"10**{zeros}" if zeros else head
