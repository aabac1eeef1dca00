"""The task: its distribution against enumeration, its original form, bad input."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from separatrix.errors import ArgumentError
from separatrix.selection.task import SparseTokenSelection, all_subsets, flatten_input, subset_average, uniform_subsets


@given(st.integers(1, 9), st.data())
def test_subsets_are_ascending_and_inside(T: int, data: st.DataObject) -> None:
    q = data.draw(st.integers(1, T))
    y = uniform_subsets(7, T, q, data.draw(st.integers(0, 1000)))
    assert y.shape == (7, q)
    assert bool((y >= 0).all() and (y < T).all() and (y.diff(dim=1) > 0).all())


@pytest.mark.parametrize(("T", "q"), [(5, 2), (6, 3), (4, 4), (7, 1)])
def test_subsets_are_uniform(T: int, q: int) -> None:
    """Pearson's statistic stays below its limit, which a uniform distribution exceeds with probability 1e-7."""
    n = 40_000
    drawn = [tuple(row) for row in uniform_subsets(n, T, q, 11).tolist()]
    subsets = [tuple(row) for row in all_subsets(T, q).tolist()]
    expected = n / len(subsets)
    statistic = sum((drawn.count(subset) - expected) ** 2 / expected for subset in subsets)
    assert len(subsets) == 1 or statistic < stats.chi2.isf(1e-7, len(subsets) - 1)


def test_all_subsets_are_the_combinations() -> None:
    assert [tuple(row) for row in all_subsets(6, 3).tolist()] == list(itertools.combinations(range(6), 3))


@given(st.integers(1, 6), st.integers(1, 3), st.data())
def test_the_target_is_the_average_written_out(T: int, d: int, data: st.DataObject) -> None:
    q = data.draw(st.integers(1, T))
    X, y, target = SparseTokenSelection(T, q, d).batch(3, generator=data.draw(st.integers(0, 99)), dtype=torch.float64)
    for n, coordinate in itertools.product(range(3), range(d)):
        total = sum(X[n, int(j), coordinate].item() for j in y[n])
        assert abs(total / q - target[n, coordinate].item()) < 1e-12


def test_tokens_are_standard_normal() -> None:
    """Means and products of 3e5 normal numbers: each of the bounds fails with probability below 1e-8."""
    X = SparseTokenSelection(10, 2, 3).batch(10_000, generator=3).X.reshape(-1, 3).double()
    n = len(X)
    assert float(X.mean(0).abs().max()) < 6 / n**0.5
    assert float((X.T @ X / n - torch.eye(3)).abs().max()) < 6 * 2**0.5 / n**0.5
    assert stats.kstest(X.flatten().numpy(), "norm").pvalue > 1e-8


def test_a_seed_is_a_batch_and_the_global_generator_stays() -> None:
    before = torch.get_rng_state()
    task = SparseTokenSelection(8, 2, 2)
    first, two, other = (task.batch(4, generator=seed) for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(first, two, strict=True))
    assert not torch.equal(first.X, other.X)
    assert torch.equal(before, torch.get_rng_state())


def test_the_original_task_has_T_times_the_loss() -> None:
    """Over all tuples of T subsets an inaccurate model has T times its mean loss over single subsets (Appendix A.2)."""
    T, q, d = 3, 2, 2
    subsets = all_subsets(T, q)
    X = torch.randn(T, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    answer = torch.randn(len(subsets), d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    error = (answer - torch.stack([subset_average(X, y) for y in subsets])).square().sum(1)
    tuples = torch.tensor(list(itertools.product(range(len(subsets)), repeat=T)))
    original = torch.stack([error[choice].sum() for choice in tuples]).mean()
    assert abs(float(original - T * error.mean())) < 1e-12
    batch = SparseTokenSelection(T, q, d).original_batch(5, generator=2, dtype=torch.float64)
    single = torch.stack([subset_average(batch.X, batch.y[:, i]) for i in range(T)], 1)
    torch.testing.assert_close(batch.target, single)


def test_flattening_keeps_tokens_together() -> None:
    X, y, _ = SparseTokenSelection(4, 2, 3).batch(2, generator=0)
    flat = flatten_input(X, y)
    assert flat.shape == (2, 14)
    assert torch.equal(flat[:, 3:6], X[:, 1])
    assert torch.equal(flat[:, 12:].long(), y)


@pytest.mark.parametrize(("T", "q", "d"), [(0, 1, 1), (4, 0, 1), (4, 5, 1), (4, 2, 0), (4.0, 2, 1), (True, 1, 1)])
def test_bad_sizes_are_refused(T: int, q: int, d: int) -> None:
    with pytest.raises(ArgumentError, match="expected an integer"):
        SparseTokenSelection(T, q, d)


def test_a_query_of_another_batch_is_refused() -> None:
    with pytest.raises(ArgumentError, match="y: expected shape"):
        subset_average(torch.zeros(3, 4, 2), torch.zeros(2, 2, dtype=torch.int64))
