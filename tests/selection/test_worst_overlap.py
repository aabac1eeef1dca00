"""The largest overlap of a valid encoding: it is attained, a search stays below it, and bad arguments are refused."""

from __future__ import annotations

import pytest
import torch

from separatrix.claims.selection.corollary_e_16 import worst_encoding
from separatrix.errors import ArgumentError
from separatrix.selection import dual_overlap, overlaps, restricted_isometry, worst_overlap, worst_overlap_encoding


@pytest.mark.parametrize(("q", "T"), [(1, 4), (2, 8), (3, 8), (5, 7)])
def test_an_encoding_of_that_constant_reaches_it(q: int, T: int) -> None:
    E = worst_overlap_encoding(q, 0.15, T)
    constant = restricted_isometry(E, q)
    assert constant.exact
    assert constant.upper == pytest.approx(0.15, rel=1e-12)
    assert float(overlaps(E, torch.arange(q)).max()) == pytest.approx(worst_overlap(q, 0.15), rel=1e-12)


def test_the_bound_on_q_at_a_tenth() -> None:
    assert worst_overlap(99, 0.1) < 1 <= worst_overlap(100, 0.1)
    assert dual_overlap(0.1) < 0.13


def test_the_worst_loss_is_finite_where_weights_underflow() -> None:
    assert worst_encoding(q=80, delta=0.0999, seed=0)["equal"] > 1


@pytest.mark.parametrize(("q", "delta"), [(0, 0.1), (3, 0.26), (2, 0.0), (2, 0.6)])
def test_arguments_outside_of_the_range_are_refused(q: int, delta: float) -> None:
    with pytest.raises(ArgumentError):
        worst_overlap(q, delta)
