"""The largest share of attention that bounded scores can give one tuple."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.studies.learning.sharpness import largest_share, radius_for_half


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(0, 20))
def test_no_scores_within_the_bound_give_more(scores: list[float], R: float) -> None:
    weights = torch.softmax(R * torch.tensor(scores, dtype=torch.float64), 0)
    assert float(weights.max()) <= largest_share(R, len(scores)) * (1 + 1e-12)


@given(st.integers(2, 40), st.floats(0, 20))
def test_some_scores_give_as_much(tuples: int, R: float) -> None:
    scores = torch.full((tuples,), -R, dtype=torch.float64)
    scores[0] = R
    assert float(torch.softmax(scores, 0)[0]) == pytest.approx(largest_share(R, tuples), rel=1e-12)


@given(st.integers(2, 10**9))
def test_half(tuples: int) -> None:
    R = radius_for_half(tuples)
    assert largest_share(R, tuples) == pytest.approx(0.5, rel=1e-9)
    assert radius_for_half(1) == radius_for_half(2) == 0.0
    assert math.log(tuples) / 2 >= R


@pytest.mark.parametrize(("R", "tuples"), [(-1.0, 3), (math.nan, 3), (1.0, 0), (1.0, 2.5), (1.0, True)])
def test_bad_arguments(R: float, tuples: int) -> None:
    with pytest.raises(ArgumentError):
        largest_share(R, tuples)
