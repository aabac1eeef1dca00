"""Times with stochastic encodings: sampled overlaps are those of encodings; the flow is the limit of small steps."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix.claims.selection.stochastic_times import drawn_weights, times_in_the_flow
from separatrix.errors import SeparatrixError
from separatrix.selection.dynamics import population_dynamics, population_loss
from separatrix.selection.overlap_table import overlap_table


def test_the_drawn_overlaps_are_those_of_encodings() -> None:
    """The width is such that four of ten candidates are rejected; the two means differ by at most four standard
    errors.
    """
    T, width, threshold = 24, 256, 0.14
    C, w, slope = drawn_weights(T, width, threshold=threshold, subsets=4000, seed=1)
    table = overlap_table(
        T, 2, width, threshold=threshold, encodings=200, subsets=20, generator=2, largest_C=16.0, spacing=0.0625
    )
    assert table.rejection_rate > 0.2
    assert np.array_equal(C, table.C)
    assert (abs(w - table.w) <= 5 * table.w_se + 1e-12).all()
    assert (abs(slope - table.w_slope) <= 5 * table.w_slope_se + 1e-12).all()


def test_the_flow_is_descent_at_a_small_rate() -> None:
    """Without overlaps w is that of one-hot encodings, whose recursion changes C by d / (T - 1), not d / width."""
    T, q, d = 12, 2, 3
    C = np.linspace(0, 16, 257)
    odds = (T - q) / q * np.exp(-C)
    w = odds / (1 + odds)
    epsilons = [0.01, 0.001]
    lr = 0.01
    run = population_dynamics(T, q, d, lr, 400_000)
    counted = [int(np.flatnonzero(run.loss <= epsilon)[0]) * lr for epsilon in epsilons]
    # On the plane, for one-hot encodings, the gradient in C is divided by |W*|^2 = T - 1, as with width = T - 1 here.
    flow = times_in_the_flow((C, w, -w * (1 - w)), T, d, T - 1, epsilons)
    assert population_loss(run.alpha, run.C, T, q, d)[-1] < epsilons[-1]
    assert flow == pytest.approx(counted, rel=2e-3)


def test_a_loss_that_is_not_reached_is_an_error() -> None:
    C, w, slope = drawn_weights(10, 64, threshold=0.4, subsets=2, seed=0)
    flat = (C, np.full_like(w, 0.8), np.zeros_like(slope))
    with pytest.raises(SeparatrixError, match="was not reached"):
        times_in_the_flow(flat, 10, 2, 64, [1e-3])
