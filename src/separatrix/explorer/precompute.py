"""Computing the first figures in the background while the browser starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

from separatrix.explorer import controls
from separatrix.explorer.fields import Field

log = logging.getLogger("separatrix.explorer")


def precompute(store: Path) -> None:
    """Compute the first figures of the tabs, the speed of the machine, and the verdicts of the claims."""
    from separatrix.explorer.claims.judged_claims import shelf_of
    from separatrix.explorer.compute.machine_speed import speeds

    for first in (_separate, _compute, _learn, _attend):
        first()
    speeds()
    shelf_of(store).judgements()  # last, because it imports all claims


def _separate() -> None:
    from separatrix.explorer.separate import fields, figures

    figures.along([_defaults(fields.FIELDS)], figures.ALONG.default)


def _compute() -> None:
    from separatrix.explorer.compute import phase_diagram, plan_table
    from separatrix.explorer.compute.fields import FIELDS, settings_of

    sizes = settings_of({field.name: field.default for field in FIELDS}, {}) or []
    phase_diagram.phase(sizes)
    for setting in sizes:
        plan_table.planned(setting)


def _learn() -> None:
    from separatrix.explorer.learn import dynamics, figures, sweep, tab

    settings = dynamics.descent(_defaults(tab.DYNAMICS))
    figures.dynamics([dynamics.descended(settings)])
    sweep.along([settings], sweep.ALONG.default)


def _attend() -> None:
    from separatrix.explorer.attend import example, fields, figures

    chosen = _defaults(fields.FIELDS)
    figures.draw_weights(example.example().map_of(chosen["query"], chosen["head"]), example.NAME)


def _defaults(fields: Sequence[Field]) -> dict[str, Any]:
    return controls.values(fields, {field.name: field.default for field in fields})


def start_precomputing(store: Path) -> None:
    """Run `precompute` in a background thread. An error is logged, and the callbacks show it on the page."""

    def run() -> None:
        try:
            precompute(store)
        except Exception:
            log.exception("The explorer could not compute its first figures")

    Thread(target=run, daemon=True).start()
