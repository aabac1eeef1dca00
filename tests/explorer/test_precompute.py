"""The explorer computes its first figures in the background."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from separatrix import doctor
from separatrix.claims.ledger import claims
from separatrix.explorer import precompute
from separatrix.explorer.claims import judged_claims
from separatrix.explorer.compute import machine_speed, phase_diagram
from separatrix.explorer.learn import dynamics


def test_first_figures_speeds_and_verdicts_are_computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timed = [doctor.Speed("exact", "", 4.0, 2.0), doctor.Speed("polynomial", "", 9.0, 3.0)]
    monkeypatch.setattr(machine_speed, "_found", {})
    monkeypatch.setattr(doctor, "speeds", lambda **options: timed)
    phase_diagram.diagram.cache_clear()
    dynamics.descended.cache_clear()
    precompute.precompute(tmp_path)
    assert machine_speed._found == {"exact": 2.0, "polynomial": 3.0}
    assert phase_diagram.diagram.cache_info().currsize == 1
    assert dynamics.descended.cache_info().currsize == 1
    with monkeypatch.context() as broken:
        broken.setattr(judged_claims, "judge", None)  # no claim is left to judge
        assert len(judged_claims.shelf_of(tmp_path).judgements()) == len(claims())
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_logged_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def broken(store: Path) -> None:
        raise RuntimeError("no time today")

    started = []
    monkeypatch.setattr(precompute, "precompute", broken)
    monkeypatch.setattr(precompute, "Thread", lambda target, daemon: started.append(daemon) or _Now(target))
    with caplog.at_level(logging.ERROR):
        precompute.start_precomputing(tmp_path)
    assert started == [True]
    assert "no time today" in caplog.text


class _Now:
    """A thread that runs immediately when it is started."""

    def __init__(self, target) -> None:
        self.start = target
