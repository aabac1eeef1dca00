"""What a first visitor would wait for, computed while the browser starts."""

from __future__ import annotations

import logging
from threading import Thread

log = logging.getLogger("separatrix.explorer")


def warm() -> None:
    """Time the machine, and compute the first figures of the tabs with their defaults."""
    from separatrix.explorer import controls
    from separatrix.explorer.compute import phase_here, view
    from separatrix.explorer.compute.fields import FIELDS, settings_of
    from separatrix.explorer.compute.machine_speed import speeds
    from separatrix.explorer.separate import fields, figures

    defaults = {field.name: field.default for field in fields.FIELDS}
    figures.along([controls.values(fields.FIELDS, defaults)], figures.ALONG.default)
    sizes = settings_of({field.name: field.default for field in FIELDS}, {}) or []
    phase_here.phase(sizes)
    for one in sizes:
        view.planned(one)
    speeds()


def start_warming() -> None:
    """Do so beside the server. A failure is logged, and the callbacks then tell the reader the same."""

    def run() -> None:
        try:
            warm()
        except Exception:
            log.exception("The explorer could not compute its first figures")

    Thread(target=run, daemon=True).start()
