"""Ctrl-C at every moment of a run, and outside of runs."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import separatrix.lab
from separatrix.lab import Store, in_process, run
from separatrix.lab.interrupts import cut_short, noted
from tests.lab.experiments import number
from tests.lab.helpers import do

LAB = str(Path(separatrix.lab.__file__).parent)
CELLS = [number.cell(seed=seed, x=0.5) for seed in range(3)]


@pytest.fixture(autouse=True)
def handler_is_left_as_it_was() -> Iterator[None]:
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Pressing:
    """Press Ctrl-C before the `at`-th line of the lab in this thread."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Pressing | None:
        if not frame.f_code.co_filename.startswith(LAB):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                signal.raise_signal(signal.SIGINT)
        return self


def lines_until_the_end(store: Store, at: int) -> tuple[int, bool]:
    """Run the cells with Ctrl-C at a line; return how many lines were executed, and whether the run stopped."""
    pressing, tracing = Pressing(at), sys.gettrace()
    sys.settrace(pressing)
    try:
        stopped = run(store, CELLS, in_process()).stopped
    except KeyboardInterrupt:  # before the run began, or after it ended
        stopped = True
    finally:
        sys.settrace(tracing)
    return pressing.lines, stopped


def test_ctrl_c_at_any_line_of_a_run_leaves_a_clean_store(tmp_path: Path) -> None:
    with Store.create(tmp_path / "whole") as store:
        lines, stopped = lines_until_the_end(store, at=-1)
    assert not stopped
    with Store.create(tmp_path / "broken") as store:
        for at in range(1, lines + 1, 5):
            passed, stopped = lines_until_the_end(store, at)
            assert stopped or passed < at, f"Ctrl-C at line {at} of {lines} was lost"
            assert not store.connection.in_transaction
            assert set(store.statuses([cell.key for cell in CELLS]).values()) <= {"done"}
            assert not list((tmp_path / "broken" / "runs").glob("*.lock"))
            with store.transaction() as connection:
                connection.execute("DELETE FROM cells")
        tally = run(store, CELLS, in_process())
    assert (tally.done, tally.stopped) == (3, False)


def test_a_ctrl_c_that_is_noted_raises_where_it_is_looked_for() -> None:
    with noted() as ctrl_c:
        ctrl_c.check()
        signal.raise_signal(signal.SIGINT)
        assert ctrl_c.came
        with pytest.raises(KeyboardInterrupt):
            ctrl_c.check()
        entered = False
        with pytest.raises(KeyboardInterrupt), cut_short():
            entered = True
        assert not entered


def test_only_the_first_ctrl_c_cuts_short() -> None:
    def cell() -> None:
        with cut_short():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)
                cleared.append("up")

    cleared: list[str] = []
    with noted(), pytest.raises(KeyboardInterrupt):
        cell()
    assert cleared == ["up"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None], ids=["ignored", "the caller's own"])
def test_other_handlers_of_ctrl_c_are_kept(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)
    try:
        with noted() as ctrl_c, cut_short():
            assert signal.getsignal(signal.SIGINT) is handler
            signal.raise_signal(signal.SIGINT)
        assert not ctrl_c.came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_run_in_another_thread_leaves_signals_alone(tmp_path: Path) -> None:
    tallies = []
    with noted() as ctrl_c:
        thread = threading.Thread(target=lambda: tallies.append(do(tmp_path, CELLS)))
        signal.raise_signal(signal.SIGINT)
        thread.start()
        thread.join()
    assert ctrl_c.came
    assert (tallies[0].done, tallies[0].stopped) == (3, False)
