"""Encodings: the signs, rejection against its literal form and its distribution, subset codes, refused thresholds."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.encodings import (
    near_orthogonal_encoding,
    near_orthogonal_stack,
    one_hot_encoding,
    random_signs,
    resolve_conflicts,
    subset_code,
    subset_weights,
)
from separatrix.selection.thresholds import (
    coherence_floor,
    expected_candidates,
    feasible_limit,
    pair_tail,
    threshold_limit,
)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 7), (5, 64), (2, 65), (9, 170)])
def test_signs_are_signs(rows: int, width: int) -> None:
    signs = random_signs(rows, width, torch.Generator().manual_seed(1))
    assert signs.shape == (rows, width)
    assert signs.dtype == torch.float32
    assert set(signs.unique().tolist()) <= {-1.0, 1.0}


def test_signs_are_fair_and_independent() -> None:
    """Means and pair products over 2e5 rows meet 55 bounds of 7 standard errors, which fail with probability 2e-10."""
    n = 200_000
    signs = random_signs(n, 10, torch.Generator().manual_seed(4)).double()
    products = torch.cat([torch.ones(n, 1).double(), signs], 1)
    moments = (products.T @ products / n).triu(1)
    assert float(moments.abs().max()) < 7 / n**0.5


def _rejected_literally(T: int, width: int, threshold: float, seed: int) -> tuple[torch.Tensor, int]:
    """Draw columns one after another; keep those that are near-orthogonal to all kept ones."""
    source = torch.Generator().manual_seed(seed)
    first = iter(random_signs(T, width, source))
    kept: list[torch.Tensor] = []
    read = 0
    while len(kept) < T:
        column = next(first, None)
        column = random_signs(1, width, source)[0] if column is None else column
        read += 1
        if all(abs(float(column @ other)) <= threshold * width + 1e-6 for other in kept):
            kept.append(column)
    return torch.stack(kept), read


@pytest.mark.parametrize(("T", "width", "threshold"), [(12, 16, 0.3), (20, 24, 0.34), (3, 4, 0.0), (6, 9, 0.4)])
@pytest.mark.parametrize("seed", range(4))
def test_rejection_is_the_literal_one(T: int, width: int, threshold: float, seed: int) -> None:
    signs, read = _rejected_literally(T, width, threshold, seed)
    drawn = near_orthogonal_encoding(T, width, threshold=threshold, generator=seed)
    torch.testing.assert_close(drawn.E * math.sqrt(width), signs)
    assert (drawn.candidates, drawn.rejected) == (read, read - T)
    assert drawn.rejection_rate == (read - T) / read


def test_rejection_keeps_the_distribution_of_valid_encodings() -> None:
    """T = 2, width 4: given the first column, the second is uniform over the 14 that are neither equal nor opposite."""
    n = 28_000
    E = near_orthogonal_stack(n, 2, 4, threshold=0.5, generator=9).E * 2
    second = ((E[:, 1] * E[:, :1].squeeze(1)) > 0).long() @ torch.tensor([1, 2, 4, 8])
    counts = torch.bincount(second, minlength=16).double()
    assert counts[0] == 0
    assert counts[15] == 0
    statistic = float(((counts[1:15] - n / 14) ** 2 / (n / 14)).sum())
    assert statistic < stats.chi2.isf(1e-7, 13)


@given(st.integers(2, 9), st.integers(8, 20), st.integers(0, 500))
def test_every_pair_meets_the_threshold(T: int, width: int, seed: int) -> None:
    drawn = near_orthogonal_stack(3, T, width, threshold=0.6, generator=seed, dtype=torch.float64)
    gram = drawn.E @ drawn.E.mT
    off = gram - torch.diag_embed(gram.diagonal(dim1=1, dim2=2))
    assert float(off.abs().max()) <= 0.6 + 1e-12
    torch.testing.assert_close(drawn.E.abs(), torch.full_like(drawn.E, width**-0.5))


def test_the_dot_products_are_those_of_the_signs_also_after_a_repair() -> None:
    source = torch.Generator().manual_seed(0)
    reads = []
    for _ in range(20):
        signs = random_signs(10, 12, source)
        dots, read = resolve_conflicts(signs, 6, source)
        assert torch.equal(dots, signs @ signs.mT)
        assert float((dots - 12 * torch.eye(10)).abs().max()) <= 6
        reads.append(read)
    assert max(reads) > 10 >= min(reads)


def test_the_global_generator_stays() -> None:
    before = torch.get_rng_state()
    near_orthogonal_encoding(9, 12, threshold=0.5, generator=0)
    assert torch.equal(before, torch.get_rng_state())


@given(st.integers(1, 4), st.integers(0, 300))
def test_a_subset_code_is_its_formula(q: int, seed: int) -> None:
    E = near_orthogonal_encoding(9, 40, threshold=0.5, generator=seed, dtype=torch.float64).E
    y = torch.tensor(list(itertools.combinations(range(9), q)))
    for subset, g, code in zip(y, subset_weights(E, y), subset_code(E, y), strict=True):
        E_y = E[subset].T
        inverse = torch.linalg.inv(E_y.T @ E_y) @ torch.ones(q, dtype=torch.float64)
        torch.testing.assert_close(g, inverse, rtol=0, atol=1e-12)
        torch.testing.assert_close(code, E_y @ inverse, rtol=0, atol=1e-12)
        torch.testing.assert_close(E[subset] @ code, torch.ones(q, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_code_of_a_one_hot_subset_is_the_sum() -> None:
    assert torch.equal(subset_code(one_hot_encoding(5), torch.tensor([1, 4])), torch.tensor([0.0, 1, 0, 0, 1]))


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e8])
def test_dependent_encodings_are_refused_at_every_scale(scale: float) -> None:
    E = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64) * scale
    assert torch.isfinite(subset_weights(E, torch.tensor([[0, 1], [1, 2]]))).all()
    with pytest.raises(SeparatrixError, match=r"subset \[0, 1, 2\] are linearly dependent"):
        subset_weights(E, torch.tensor([[0, 1, 2]]))


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_the_pair_tail_is_an_enumeration(width: int) -> None:
    signs = torch.tensor(list(itertools.product([-1, 1], repeat=width)))
    dots = signs.sum(1).abs()
    for limit in range(width + 1):
        assert pair_tail(width, limit) == float((dots > limit).double().mean())


@pytest.mark.parametrize(("T", "width"), [(2, 2), (3, 2), (3, 3), (4, 3), (5, 4), (4, 1), (6, 3)])
def test_no_sign_vectors_beat_the_coherence_floor(T: int, width: int) -> None:
    vectors = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=width)), dtype=torch.float64) / width**0.5
    gram = (vectors @ vectors.T).abs().fill_diagonal_(0)
    best = (
        min(
            float(gram[list(chosen)][:, list(chosen)].max())
            for chosen in itertools.combinations_with_replacement(range(len(vectors)), T)
            if len(set(chosen)) == T
        )
        if len(vectors) >= T
        else 1.0
    )
    assert coherence_floor(T, width) <= best + 1e-12


def test_the_forecast_of_candidates_is_close_to_their_number() -> None:
    """150 encodings at a threshold that rejects a third: the forecast is within 15% of the measured mean."""
    drawn = near_orthogonal_stack(150, 20, 16, threshold=0.5, generator=2)
    assert drawn.rejected > 0.2 * drawn.candidates
    assert abs(drawn.candidates / 150 / expected_candidates(20, 16, 8) - 1) < 0.15


def test_thresholds_are_read_as_decimals() -> None:
    assert [threshold_limit(k / 10, 10) for k in range(11)] == list(range(11))


@pytest.mark.parametrize(("T", "width", "threshold"), [(200, 170, 0.02), (3, 5, 0.1), (2, 1, 0.5), (300, 16, 0.2)])
def test_a_threshold_below_geometry_is_refused(T: int, width: int, threshold: float) -> None:
    with pytest.raises(ArgumentError, match="Welch bound"):
        feasible_limit(T, width, threshold)


def test_a_threshold_beyond_patience_is_refused_and_the_advice_is_good() -> None:
    with pytest.raises(ArgumentError, match=r"at least 0\.1529") as refusal:
        near_orthogonal_encoding(200, 170, threshold=0.1, generator=0)
    assert refusal.value.argument == "threshold"
    assert feasible_limit(200, 170, 0.153) == 26


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_an_impossible_threshold_is_refused(threshold: float) -> None:
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        near_orthogonal_encoding(4, 8, threshold=threshold, generator=0)
