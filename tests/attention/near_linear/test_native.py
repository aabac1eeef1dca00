"""Products by the C++ kernels: rounding, strides, equal bits on several threads, and tables of monomials."""

from __future__ import annotations

import pytest
import torch

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.near_linear import native
from separatrix.attention.near_linear.approximation.monomials import monomials, total_degree
from separatrix.native import native as installed
from tests.attention.near_linear.test_backend import SETS, drawn

pytestmark = pytest.mark.skipif(installed().library is None, reason="this installation has no kernels")

SMALL, LARGE = total_degree(4, 3), total_degree(24, 3)
"""Index sets of one block, and of several blocks with 25 columns; with 8 heads, each block is a task."""


@pytest.fixture(params=SETS, ids=list(SETS))
def index_set(request):
    return SETS[request.param]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("index_set", "columns", "heads", "n"),
    [(SMALL, 3, 1, 5000), (SMALL, 3, 3, 2047), (SMALL, 3, 20, 130), (LARGE, 25, 1, 2100), (LARGE, 25, 8, 70)],
)
def test_many_tokens_round_as_little_as_was_counted(index_set, columns, heads, n, dtype):
    """Sums agree with those in float64 within the roundings that `Summing` counts, and those of the monomials.

    The bound is a thousandth of the sums in float32; a tile that is omitted or counted twice would exceed it.
    """
    x, W, M = drawn(index_set, heads, n, columns, dtype)
    features = monomials(x.double(), index_set)
    state = torch.zeros(M.shape, dtype=torch.float64)
    native.add(index_set, state, x, W)
    counted = Summing(n, n).tokens([n])
    u = torch.finfo(dtype).eps / 2
    gamma = (min(n, 256) + 2 * index_set.degree + 2) * u + counted.count(wide=True) * 2.0**-53
    sizes = features.abs() @ W.double().abs().mT
    assert ((state - features @ W.double().mT).abs() <= gamma * sizes).all()
    gamma = (index_set.rank + 2 * index_set.degree + 2) * u
    sizes, sums = M.double().abs().mT @ features.abs(), M.double().mT @ features
    assert ((native.sums(index_set, x, M) - sums).abs() <= gamma * sizes).all()


def test_strided_tokens_and_none():
    index_set = total_degree(3, 2)
    x, W, M = drawn(index_set, 2, 40, 5)
    contiguous, strided, nothing = (torch.zeros(M.shape, dtype=torch.float64) for _ in range(3))
    native.add(index_set, contiguous, x[..., 7:29].contiguous(), W[..., 7:29].contiguous())
    native.add(index_set, strided, x[..., 7:29], W[..., 7:29])
    assert torch.equal(contiguous, strided)
    transposed = x.mT.contiguous().mT
    assert torch.equal(native.sums(index_set, transposed, M), native.sums(index_set, x, M))
    native.add(index_set, nothing, x[..., :0], W[..., :0])
    assert not nothing.any()
    native.add(index_set, nothing[:0], x[:0], W[:0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("heads", "n"), [(1, 6000), (3, 1500)])
def test_the_same_bits_with_one_thread_and_two(heads, n, dtype):
    index_set = total_degree(5, 3)
    x, W, M = drawn(index_set, heads, n, 7, dtype)

    def run(threads):
        torch.set_num_threads(threads)
        state = torch.zeros(M.shape, dtype=torch.float64)
        native.add(index_set, state, x, W)
        return state, native.sums(index_set, x, M), *native.gradient(index_set, x, M, W)

    before = torch.get_num_threads()
    try:
        assert all(torch.equal(actual, two) for actual, two in zip(run(1), run(2), strict=True))
    finally:
        torch.set_num_threads(before)


def test_every_monomial_is_a_row_times_a_coordinate(index_set):
    left, right, parents, coordinates = native.native_monomials(index_set).arrays
    rows = [(0,) * index_set.dimension]
    steps = [*(tuple(row) for row in torch.eye(index_set.dimension, dtype=torch.int64).tolist()), rows[0]]

    def times(alpha, coordinate):
        return tuple(a + b for a, b in zip(alpha, steps[coordinate], strict=True))

    for parent, coordinate in zip(parents[1:], coordinates[1:], strict=True):
        rows.append(times(rows[parent], coordinate))
    found = [times(rows[row], coordinate) for row, coordinate in zip(left, right, strict=True)]
    assert found == [tuple(alpha) for alpha in index_set.alphas.tolist()]
