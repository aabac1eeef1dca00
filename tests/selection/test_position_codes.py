"""Sinusoidal and rotary positions against complex numbers, and the invariance under shifts."""

from __future__ import annotations

import math

import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.selection import subset_weights
from separatrix.selection.position_codes import RotaryLearner, sinusoidal_encoding, turned

D64 = torch.float64


@pytest.mark.parametrize(("T", "width"), [(1, 2), (9, 6), (40, 32)])
def test_sinusoidal_encodings_have_unit_length_and_know_differences_only(T: int, width: int) -> None:
    E = sinusoidal_encoding(T, width, dtype=D64)
    theta = [10_000 ** (-2 * k / width) for k in range(width // 2)]
    for i in range(T):
        for j in range(T):
            expected = 2 / width * sum(math.cos(t * (i - j)) for t in theta)
            assert abs(float(E[i] @ E[j]) - expected) < 1e-13


def literal_scores(learner: RotaryLearner, X: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """The real part of sum_k conj(key) query, with a complex number for each pair of coordinates."""
    theta = 10_000.0 ** (-torch.arange(0, learner.width, 2, dtype=D64) / learner.width)
    phase = torch.exp(1j * torch.arange(X.shape[1], dtype=D64).unsqueeze(1) * theta)

    def pairs(x: torch.Tensor) -> torch.Tensor:
        return torch.complex(x[..., 0::2], x[..., 1::2])

    keys = phase * pairs(learner.b + X @ learner.K.mT)
    queries = (g.unsqueeze(2) * (phase * pairs(learner.a))[y]).sum(1)
    return (keys.conj() * queries.unsqueeze(1)).sum(2).real


@pytest.mark.parametrize(("T", "d", "width", "q"), [(4, 1, 2, 1), (9, 3, 8, 2), (12, 2, 6, 4)])
def test_rotary_scores_are_the_complex_ones(T: int, d: int, width: int, q: int) -> None:
    learner = RotaryLearner(d, width, generator=0, dtype=D64)
    source = torch.Generator().manual_seed(1)
    X, g = torch.randn(5, T, d, generator=source, dtype=D64), torch.rand(5, q, generator=source, dtype=D64)
    y = torch.stack([torch.randperm(T, generator=source)[:q] for _ in range(5)])
    torch.testing.assert_close(learner.scores(X, y, g), literal_scores(learner, X, y, g), rtol=1e-12, atol=1e-12)


def test_rotary_scores_move_with_the_positions() -> None:
    """Shifting tokens and subset by three positions shifts the scores by three positions."""
    learner = RotaryLearner(2, 8, generator=0, dtype=D64)
    source = torch.Generator().manual_seed(1)
    X, g = torch.randn(1, 10, 2, generator=source, dtype=D64), torch.ones(1, 2, dtype=D64)
    moved = torch.cat([torch.zeros(1, 3, 2, dtype=D64), X], 1)
    here, there = learner.scores(X, torch.tensor([[1, 6]]), g), learner.scores(moved, torch.tensor([[4, 9]]), g)
    torch.testing.assert_close(there[:, 3:], here, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(there[:, :10], here)


def test_without_tokens_rotary_is_sinusoidal_with_a_matrix_that_commutes() -> None:
    """K = 0 and a = b = the encoding of position 0: score_i = <e_i, e_y>."""
    T, width = 7, 6
    E, y = sinusoidal_encoding(T, width, dtype=D64), torch.tensor([[0, 4], [2, 3]])
    g = subset_weights(E, y)
    learner = RotaryLearner(2, width, generator=0, dtype=D64)
    with torch.no_grad():
        learner.K.zero_()
        learner.a.copy_(E[0])
        learner.b.copy_(E[0])
    expected = torch.einsum("bq,bqw,tw->bt", g, E[y], E)
    scores = learner.scores(torch.randn(2, T, 2, generator=torch.Generator().manual_seed(0), dtype=D64), y, g)
    torch.testing.assert_close(scores, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(scores.gather(1, y), torch.ones(2, 2, dtype=D64), rtol=1e-9, atol=1e-9)


def test_turning_keeps_lengths() -> None:
    x = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0), dtype=D64)
    angle = torch.linspace(0, 9, 12, dtype=D64).reshape(4, 3)
    there = turned(x, angle.cos(), angle.sin())
    torch.testing.assert_close(turned(there, angle.cos(), -angle.sin()), x, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(there.norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [0, 3, 7])
def test_odd_widths_are_refused(width: int) -> None:
    with pytest.raises(ArgumentError, match="width"):
        sinusoidal_encoding(4, width)
