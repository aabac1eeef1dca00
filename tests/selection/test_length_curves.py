"""Losses of given encodings and at other lengths, against the definition and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.selection import (
    OverlapTable,
    SelectionTransformer,
    all_subsets,
    near_orthogonal_encoding,
    one_hot_encoding,
    overlap_table,
    population_loss,
    stochastic_loss,
    subset_code,
)
from separatrix.selection.fixed_evaluation import encoding_loss, encoding_losses
from separatrix.selection.length_curves import length_curve, limit_ratio, sampled_lengths, stochastic_state
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.stochastic_dynamics import stochastic_dynamics
from separatrix.selection.task import uniform_subsets
from separatrix.selection.trained_lengths import trained_lengths

D64 = torch.float64


def literal_loss(E: torch.Tensor, y: torch.Tensor, alpha: float, C: float, d: int) -> float:
    """d/2 E_y |Y/q - alpha S_y|^2, with the attention of the definition."""
    T, q = len(E), y.shape[1]
    transformer = SelectionTransformer(d, E.shape[1], dtype=D64)
    transformer.set_ground_truth(C)
    S = transformer.attention(torch.zeros(len(y), T, d, dtype=D64), y, E).detach()
    Y = torch.zeros(len(y), T, dtype=D64).scatter(1, y, 1.0)
    return float(d / 2 * (Y / q - alpha * S).square().sum(1).mean())


@pytest.mark.parametrize(("T", "q", "d", "width"), [(2, 1, 1, 4), (7, 3, 2, 12), (12, 2, 5, 40)])
@pytest.mark.parametrize(("alpha", "C"), [(0.0, 0.0), (1.0, 3.0), (1.3, 7.5), (0.4, 30.0)])
def test_the_loss_of_an_encoding_is_the_definitions(T: int, q: int, d: int, width: int, alpha: float, C: float) -> None:
    E = near_orthogonal_encoding(T, width, threshold=0.8, generator=T, dtype=D64).E
    y = all_subsets(T, q)
    loss = encoding_loss(E, y, alpha, C, d)
    assert loss == pytest.approx(literal_loss(E, y, alpha, C, d), rel=1e-12, abs=1e-15)


@given(st.integers(3, 30), st.floats(0.0, 2.0), st.floats(0.0, 20.0))
def test_orthonormal_encodings_have_the_closed_form(T: int, alpha: float, C: float) -> None:
    q, d = max(1, T // 4), 3
    loss = encoding_loss(one_hot_encoding(T, dtype=D64), uniform_subsets(5, T, q, 0), alpha, C, d)
    assert loss == pytest.approx(float(population_loss(alpha, C, T, q, d)), rel=1e-9, abs=1e-14)


def test_the_mean_over_encodings_is_the_tables() -> None:
    """The table of overlaps, with independent encodings, gives the same means within 6 standard errors."""
    T, q, d, width, alpha, C = 20, 2, 4, 48, 1.1, 5.0
    table: OverlapTable = overlap_table(T, q, width, threshold=0.6, encodings=60, subsets=60, generator=0, spacing=0.25)
    losses = encoding_losses(T, q, d, width, alpha=alpha, C=C, threshold=0.6, encodings=60, subsets=60, generator=1)
    at = np.array([alpha]), np.array([C])
    mean, of_mean = (
        float(stochastic_loss(table, *at, d, objective=name)[0]) for name in ("mean of the loss", "loss of the mean")
    )
    assert abs(losses.mean - mean) < 6 * math.sqrt(2) * losses.mean_se
    assert abs(losses.of_mean - of_mean) < 6 * math.sqrt(2) * losses.of_mean_se
    assert losses.mean == pytest.approx(losses.by_encoding.mean(), rel=1e-12)
    assert 0 <= losses.rejection_rate < 0.05
    assert losses.of_mean < losses.by_encoding.min()


def test_the_error_of_the_loss_of_the_mean_is_its_slope_times_that_of_w() -> None:
    """Over 100 repetitions the standard deviation of `of_mean` is its stated error, within 43% (6 deviations)."""
    sizes = {"alpha": 1.05, "C": 4.0, "threshold": 0.7, "encodings": 8, "subsets": 6}
    draws = [encoding_losses(10, 2, 3, 32, generator=seed, **sizes) for seed in range(100)]
    spread = np.std([draw.of_mean for draw in draws], ddof=1)
    assert spread / np.sqrt(np.mean([draw.of_mean_se**2 for draw in draws])) == pytest.approx(1, abs=0.43)


@pytest.mark.parametrize(("T1", "q", "d"), [(20, 2, 3), (100, 3, 5), (1000, 3, 5)])
def test_the_ratio_tends_to_its_limit(T1: int, q: int, d: int) -> None:
    """The distance is proportional to w_1, that is, to the square root of the training loss."""
    lengths = [T1, T1 + 7, 2 * T1, 10 * T1]
    curve = length_curve(T1, lengths, q, d, [1e4 * T1, 1e6 * T1, 1e8 * T1])
    limits = np.array([limit_ratio(T1, T2, q) for T2 in lengths])
    apart = np.abs(curve.ratios / limits - 1).max(1)
    assert apart[0] > apart[1] > apart[2]
    assert apart[2] < 0.03
    assert np.abs(curve.ratios[:, 0] - 1).max() < 1e-12
    assert curve.losses[0, 2] == pytest.approx(curve.ratios[0, 2] * curve.trained[0], rel=1e-12)


def test_at_a_thousand_the_wording_of_corollary_36_misses_by_eighty() -> None:
    assert limit_ratio(1000, 2000, 3) / 4 > 80
    # By hand at T_1 = 4, T_2 = 7, q = 1: x = 2, rho_1 = 1/3, rho_2 = 1/6, so (1 + 4/6) * 3.
    assert limit_ratio(4, 7, 1) == pytest.approx(5.0, rel=1e-12)


def test_the_state_follows_the_schedule() -> None:
    how = {"threshold": 0.6, "encodings": 8, "subsets": 8, "generator": 0}
    once = stochastic_state(10, 2, 3, 32, schedule=[(300, 0.5)], **how)
    assert stochastic_state(10, 2, 3, 32, schedule=[(100, 0.5), (200, 0.5)], **how) == once
    table = overlap_table(10, 2, 32, threshold=0.6, encodings=8, subsets=8, generator=0, spacing=0.125)
    run = stochastic_dynamics(table, 3, 0.5, 300)
    assert once == (run.alpha[-1], run.C[-1])
    assert stochastic_state(10, 2, 3, 32, schedule=[(300, 0.5), (50, 0.1)], **how)[1] > once[1]


def test_a_trained_transformer_lies_on_the_sampled_curve() -> None:
    """The loss differs from the recursion's by at most 15% plus six standard errors."""
    T, q, d, width = 16, 2, 4, 48
    settings = TrainingSettings(
        T=T, q=q, d=d, width=width, threshold=0.6, lr=((0, 1.0), (1200, 0.2)), batch=128, steps=1600, seed=1,
        validate_every=1600, validation_T=(), validation_q=(), snapshots=(1600,),
    )  # fmt: skip
    curves = trained_lengths(settings, [T, 32, 64], fixed=3)
    how = {"threshold": 0.6, "encodings": 30, "subsets": 60}
    state = stochastic_state(T, q, d, width, schedule=[(1200, 1.0), (400, 0.2)], generator=0, **how)
    sampled = sampled_lengths(state, T, [32, 64], q, d, width, generator=1, **how)
    for length, loss in curves.losses.items():
        expected = sampled.by_length[length]
        slack = 6 * math.hypot(curves.errors[length], expected.mean_se)
        assert abs(loss - expected.mean) < 0.15 * expected.mean + slack
    assert curves.losses[T] < curves.losses[32] < curves.losses[64]
    assert curves.cosine_W > 0.9
    assert all(abs(loss - curves.losses[T]) < 0.5 * curves.losses[T] for loss in curves.fixed)


def test_the_loss_depends_on_the_subset() -> None:
    """The loss is not a mean over positions: two subsets of one encoding have different losses."""
    E = near_orthogonal_encoding(9, 12, threshold=0.8, generator=3, dtype=D64).E
    losses = {encoding_loss(E, y.unsqueeze(0), 1.0, 4.0, 2) for y in all_subsets(9, 2)[:5]}
    assert len(losses) == 5
    assert float((E @ subset_code(E, torch.tensor([2, 4])))[2]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: encoding_loss(torch.eye(4), torch.tensor([[0, 1]]), 1.0, 1.0, 2),
        lambda: encoding_losses(4, 4, 2, 16, alpha=1, C=1, threshold=0.9, encodings=2, subsets=2, generator=0),
        lambda: encoding_losses(4, 2, 2, 16, alpha=1, C=1, threshold=0.9, encodings=1, subsets=2, generator=0),
        lambda: limit_ratio(10, 2, 2),
        lambda: limit_ratio(2, 10, 2),
        lambda: trained_lengths(TrainingSettings(steps=5), [200], fixed=0),
        lambda: trained_lengths(TrainingSettings(steps=5, snapshots=(5,)), [200], fixed=-1),
    ],
)
def test_bad_arguments_are_refused(call) -> None:
    with pytest.raises(ArgumentError):
        call()
