"""The progress of a run, as lines and as bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.lab import progress
from separatrix.lab.progress import Bars, Lines, Tally, Work


class Clock:
    """A clock that is set manually."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_lines_are_printed_at_intervals(tmp_path: Path, clock: Clock) -> None:
    with (tmp_path / "log").open("w") as stream, progress.on(101, stream) as lines:
        assert isinstance(lines, Lines)
        lines.show(Tally(skipped=20))
        for second in range(1, 21):
            clock.now = second
            lines.show(Tally(skipped=20, done=second * 4, failed=second >= 10, failed_before=0))
    assert (tmp_path / "log").read_text().splitlines() == [
        "20 of 101 cells",
        "61 of 101 cells, 4.1 a second, 9.8 s left, 1 failed",
        "101 of 101 cells, 4.05 a second, 0.0 s left, 1 failed",
    ]


def test_the_remaining_time_follows_the_costs_of_cells(tmp_path: Path, clock: Clock) -> None:
    """Ninety cells of a second and ten of a minute take 690 seconds, whatever number of cells is done."""
    work = Work(90 * 1.0 + 10 * 60.0, workers=1)
    with (tmp_path / "log").open("w") as stream, progress.on(100, stream, work) as lines:
        for done, now in ((1, 1), (45, 45), (90, 90), (95, 390), (100, 690)):
            clock.now = now
            lines.show(Tally(done=done, worked=now))
    assert (tmp_path / "log").read_text().splitlines() == [
        "1 of 100 cells, about 11 min 29 s left",
        "45 of 100 cells, about 10 min 45 s left",
        "90 of 100 cells, about 10 min 0 s left",
        "95 of 100 cells, about 5 min 0 s left",
        "100 of 100 cells, about 0.0 s left",
    ]


def test_a_slower_machine_is_detected(tmp_path: Path, clock: Clock) -> None:
    with (tmp_path / "log").open("w") as stream, progress.on(1000, stream, Work(940.0, workers=2)) as lines:
        clock.now = 970
        lines.show(Tally(done=470, skipped=30, worked=440.0))
    assert (tmp_path / "log").read_text() == "500 of 1,000 cells, about 16 min 40 s left\n"


def test_bars_print_notes_above(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream, Bars(10, stream) as bars:
        bars.show(Tally(done=5))
        bars.note("a worker died with x[1]")
    assert "a worker died with x[1]" in (tmp_path / "log").read_text()
