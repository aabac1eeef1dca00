"""How far a run is, as lines and as bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.lab import progress
from separatrix.lab.progress import Bars, Lines, Tally


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_lines_come_now_and_then(tmp_path: Path, clock: Clock) -> None:
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


def test_bars_tell_notes_above(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream, Bars(10, stream) as bars:
        bars.show(Tally(done=5))
        bars.note("a worker died with x[1]")
    assert "a worker died with x[1]" in (tmp_path / "log").read_text()
