"""Training runs as arrays."""

from __future__ import annotations

import numpy as np

from separatrix.claims.selection import training
from separatrix.selection.training import Record


def test_a_diverged_run_is_tabulated() -> None:
    records = [Record(0, None, 1.0, None, None, {"T=9": 0.5}), Record(7, 3.0, 1.0, 0.1, 0.2, {}, None, "diverged")]
    table = training.tabulated(records)
    assert np.isnan(table["loss"][0])
    assert np.isnan(table["validation"][1]).all()
    assert table["stopped"] == "diverged"
    assert "W" not in table


def test_an_interval_needs_no_more_than_two_seeds() -> None:
    estimate = training.interval([1.0, 2.0])
    assert (estimate.value, round(estimate.high, 3)) == (1.5, 7.853)  # t_{0.975, 1} = 12.706, times 1/2
