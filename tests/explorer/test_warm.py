"""What the first visitor would wait for is computed before."""

from __future__ import annotations

import logging

import pytest

from separatrix import doctor
from separatrix.explorer import warm
from separatrix.explorer.compute import machine_speed, phase_here


def test_the_machine_is_timed_and_the_diagram_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = [doctor.Speed("exact", "", 4.0, 2.0), doctor.Speed("polynomial", "", 9.0, 3.0)]
    monkeypatch.setattr(machine_speed, "_found", {})
    monkeypatch.setattr(doctor, "speeds", lambda **options: timed)
    phase_here.grid.cache_clear()
    warm.warm()
    assert machine_speed._found == {"exact": 2.0, "polynomial": 3.0}
    assert phase_here.grid.cache_info().currsize == 1


def test_a_failure_is_logged_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("no time today")

    started = []
    monkeypatch.setattr(warm, "warm", broken)
    monkeypatch.setattr(warm, "Thread", lambda target, daemon: started.append(daemon) or _Now(target))
    with caplog.at_level(logging.ERROR):
        warm.start_warming()
    assert started == [True]
    assert "no time today" in caplog.text


class _Now:
    """A thread that runs when it is started."""

    def __init__(self, target) -> None:
        self.start = target
