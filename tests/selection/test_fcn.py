"""Fully-connected nets: the infimum as a formula, a net that approaches it, the bound, and trained nets."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from separatrix.errors import ArgumentError
from separatrix.selection.fcn import FCN, parameter_count
from separatrix.selection.fcn_bound import NearOptimalNet, fcn_infimum, fcn_lower_bound, selection_directions
from separatrix.selection.task import SparseTokenSelection, all_subsets, flatten_input, subset_average

F64 = torch.float64
SIZES = st.tuples(st.integers(2, 7), st.integers(1, 7), st.integers(1, 3)).filter(lambda s: s[1] <= s[0])


def _sigma(T: int, q: int, d: int) -> Tensor:
    """E_y M_y^T M_y over all subsets, where M_y is the averaging matrix."""
    total = torch.zeros(T * d, T * d, dtype=F64)
    subsets = all_subsets(T, q)
    for y in subsets:
        M = torch.zeros(d, T, d, dtype=F64)
        for j, c in itertools.product(y.tolist(), range(d)):
            M[c, j, c] = 1 / q
        M = M.reshape(d, T * d)
        total += M.T @ M / len(subsets)
    return total


@settings(max_examples=30)
@given(SIZES)
def test_the_infimum_is_the_sum_of_the_smallest_eigenvalues(sizes: tuple[int, int, int]) -> None:
    T, q, d = sizes
    eigenvalues = torch.linalg.eigvalsh(_sigma(T, q, d))
    for k in range(T * d + 2):
        assert fcn_infimum(k, T, q, d) == pytest.approx(float(eigenvalues[: max(T * d - k, 0)].sum()), abs=1e-12)


@settings(max_examples=30)
@given(SIZES, st.integers(0, 200), st.data())
def test_no_first_layer_beats_it_even_if_y_is_known(
    sizes: tuple[int, int, int], seed: int, data: st.DataObject
) -> None:
    """For random A of k rows, the error tr((I - P) Sigma) of the conditional mean given A x and y is not smaller."""
    T, q, d = sizes
    k = data.draw(st.integers(1, T * d))
    A = torch.randn(k, T * d, dtype=F64, generator=torch.Generator().manual_seed(seed))
    P = torch.linalg.pinv(A) @ A
    error = float((_sigma(T, q, d) @ (torch.eye(T * d, dtype=F64) - P)).trace())
    assert error >= fcn_infimum(k, T, q, d) - 1e-12


@pytest.mark.parametrize(("T", "q", "d"), [(2, 1, 1), (5, 2, 3), (7, 6, 2), (4, 4, 2)])
def test_the_lower_bound_is_the_infimum_one_neuron_short(T: int, q: int, d: int) -> None:
    assert fcn_infimum(T * d - 1, T, q, d) == pytest.approx(fcn_lower_bound(T, q), abs=1e-15)
    if T * d - 2 >= d:
        assert fcn_infimum(T * d - 2, T, q, d) == pytest.approx(2 * fcn_lower_bound(T, q), abs=1e-15)


@pytest.mark.parametrize(("T", "d"), [(1, 2), (2, 1), (5, 3)])
def test_the_directions_are_orthonormal_eigenvectors(T: int, d: int) -> None:
    A = selection_directions(T, d)
    torch.testing.assert_close(A @ A.T, torch.eye(T * d, dtype=F64), rtol=0, atol=1e-12)
    values = (A @ _sigma(T, 1, d) @ A.T).diagonal() if T == 1 else (A @ _sigma(T, 2, d) @ A.T).diagonal()
    assert bool((values.diff() <= 1e-12).all())


@pytest.mark.parametrize(("T", "q", "d"), [(6, 2, 2), (5, 3, 1), (4, 1, 3)])
def test_the_near_optimal_net_nears_the_infimum(T: int, q: int, d: int) -> None:
    """40,000 inputs for every k: the mean squared error is within 6 standard errors of the formula."""
    X, y, target = SparseTokenSelection(T, q, d).batch(40_000, generator=1, dtype=F64)
    x = flatten_input(X, y)
    for k in range(1, T * d + 1):
        net = NearOptimalNet(k, T, q, d)
        with torch.no_grad():
            error = (net(x) - target).square().sum(1)
        assert net.first.out_features == k
        spread = float(error.std()) / len(x) ** 0.5
        assert abs(float(error.mean()) - fcn_infimum(k, T, q, d)) <= 6 * spread + 1e-18


def test_a_small_gap_costs_and_a_large_one_does_not() -> None:
    X, y, target = SparseTokenSelection(5, 2, 1).batch(20_000, generator=2, dtype=F64)
    x = flatten_input(X, y)
    with torch.no_grad():
        errors = [float((NearOptimalNet(4, 5, 2, 1, gap=gap)(x) - target).square().mean()) for gap in (0.5, 3.0, 30.0)]
    assert errors[0] > errors[1] > errors[2]


def test_below_d_neurons_the_infimum_is_reached_without_y() -> None:
    net = NearOptimalNet(2, 4, 2, 3)
    assert float(net.first.weight.detach()[:, 12:].abs().max()) == 0
    assert net.misread == 0.0


def test_a_net_has_its_widths() -> None:
    net = FCN(3, 2, 2, [5, 4], activation=nn.GELU, generator=3)
    kinds = [type(layer) for layer in net.layers]
    assert kinds == [nn.Linear, nn.GELU, nn.Linear, nn.GELU, nn.Linear]
    assert [layer.weight.shape for layer in net.layers if isinstance(layer, nn.Linear)] == [(5, 8), (4, 5), (2, 4)]
    assert parameter_count(net) == 5 * 9 + 4 * 6 + 2 * 5
    X, y, _ = SparseTokenSelection(3, 2, 2).batch(4, generator=0)
    torch.testing.assert_close(net(X, y), net(flatten_input(X, y)))
    for layer in net.layers:
        if isinstance(layer, nn.Linear):
            assert float(layer.weight.detach().abs().max()) <= layer.in_features**-0.5


def test_a_net_does_not_use_the_global_generator() -> None:
    before = torch.get_rng_state()
    first, two = FCN(3, 2, 2, [5], generator=3), FCN(3, 2, 2, [5], generator=3)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), two.parameters(), strict=True))


def test_the_average_of_a_subset_of_all_tokens_is_their_mean() -> None:
    X, y, target = SparseTokenSelection(4, 4, 2).batch(3, generator=0, dtype=F64)
    torch.testing.assert_close(target, X.mean(1))
    torch.testing.assert_close(subset_average(X, y), X.mean(1))
    assert fcn_infimum(2, 4, 4, 2) == pytest.approx(0.0, abs=1e-15)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ArgumentError, match="T: expected an integer >= 2"):
        fcn_lower_bound(1, 1)
    with pytest.raises(ArgumentError, match="k: expected an integer >= 0"):
        fcn_infimum(-1, 4, 2, 1)
    with pytest.raises(ArgumentError, match="widths: expected at least one"):
        FCN(3, 2, 2, [])
    with pytest.raises(ArgumentError, match=r"widths\[1\]: expected an integer >= 1"):
        FCN(3, 2, 2, [4, 0])
