"""The fields of the tab Compute, and the settings made from their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from separatrix.explorer import controls
from separatrix.explorer.compute.plan_table import PlanSettings
from separatrix.explorer.fields import decimal, whole

_PAPER = "Alman and Song"

FIELDS = (
    whole(
        "n",
        "n",
        "The number of tokens in a sequence: of queries, and of keys in every set.",
        f"{_PAPER}, Definition 1.2",
        low=2,
        high=10**12,
        default="1e6",
        log=True,
    ),
    whole(
        "d",
        "d",
        "The number of coordinates of a token. In the theorems d is of order log n.",
        f"{_PAPER}, Definition 1.2",
        low=1,
        high=1024,
        default="8",
        log=True,
    ),
    decimal(
        "B",
        "B",
        "The largest magnitude of an entry of queries, keys and values: where it is small, attention is cheap.",
        f"{_PAPER}, Definition 1.2 and Theorem 1.4",
        low="0.01",
        high="10",
        default="0.9",
        step="0.01",
        places=4,
    ),
    whole(
        "k",
        "k",
        "The order: every query attends tuples of k - 1 keys. 2 is ordinary attention.",
        f"{_PAPER}, Definition 1.5",
        low=2,
        high=6,
        default="3",
    ),
    decimal(
        "tolerance",
        "ε",
        "The error allowed in every entry of the output. In the theorems it is a power of 1/n.",
        f"{_PAPER}, Definition 1.2",
        low="0.000000000001",
        high="1",
        default="0.001",
        places=15,
        log=True,
    ),
)


def settings_of(state: Mapping[str, Any], notes: dict[str, Any]) -> list[PlanSettings] | None:
    """The settings of the page, or None if a value is invalid; `notes` then has the errors by field."""
    return controls.each_setting(FIELDS, state, _sizes, lambda _: {}, notes)


def _sizes(read: Mapping[str, Any]) -> PlanSettings:
    return PlanSettings(read["n"], read["d"], float(read["B"]), read["k"], float(read["tolerance"]))
