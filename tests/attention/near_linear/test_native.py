"""Products by the kernels in C++, against the form that defines them, PyTorch's products, and themselves on threads."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.approximation.monomials import downward_closed, monomials, total_degree
from separatrix.attention.near_linear.native import NativeProducts, laid
from separatrix.attention.near_linear.torch import in_pytorch, products
from separatrix.native import native
from separatrix.native_tensors import kernels_for

pytestmark = pytest.mark.skipif(native().library is None, reason="this installation has no kernels")

SETS = {
    "total degree 4 of 3": total_degree(3, 4),
    "total degree 3 of 9": total_degree(9, 3),
    "one coordinate": total_degree(1, 5),
    "a constant": total_degree(2, 0),
    "linear": total_degree(5, 1),
    "shaped": downward_closed(greedy_alphas([0.9, 0.4, 0.2, 0.05, 0.6], 60)),
    "a coordinate unused": downward_closed([(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 0), (1, 0, 1)]),
}


@pytest.fixture(params=SETS, ids=list(SETS))
def index_set(request):
    return SETS[request.param]


def drawn(index_set, heads, n, columns, dtype=torch.float64):
    generator = torch.Generator().manual_seed(n + columns)
    shapes = (heads, index_set.dimension, n), (heads, columns, n), (heads, index_set.rank, columns)
    return [2 * torch.rand(*shape, dtype=dtype, generator=generator) - 1 for shape in shapes]


def form(index_set, x, W, M):
    """sum_n sum_alpha x_n^alpha <M_alpha, W_n>, literally."""
    powers = [(x ** torch.tensor(alpha).reshape(-1, 1)).prod(1) for alpha in index_set.alphas.tolist()]
    return torch.einsum("han,hac,hcn->", torch.stack(powers, 1), M, W)


def made(index_set, heads, columns, dtype=torch.float64):
    found = products(index_set, heads, 64, columns, torch.empty(0, dtype=dtype))
    assert isinstance(found, NativeProducts)
    return found


@pytest.mark.parametrize(("heads", "n", "columns"), [(1, 1, 1), (2, 5, 4), (3, 17, 9), (1, 300, 11), (2, 33, 29)])
def test_they_are_the_derivatives_of_the_form(index_set, heads, n, columns):
    x, W, M = (one.requires_grad_() for one in drawn(index_set, heads, n, columns))
    grad_x, grad_W, grad_M = torch.autograd.grad(form(index_set, x, W, M), (x, W, M))
    x, W, M = x.detach(), W.detach(), M.detach()
    met = made(index_set, heads, columns)
    state, cut = met.start(), n // 3
    met.add(state, x[..., :cut], W[..., :cut])
    met.add(state, x[..., cut:], W[..., cut:])
    close = {"atol": 1e-12, "rtol": 1e-12}
    torch.testing.assert_close(met.finish(state), grad_M, **close)
    prepared, again = met.prepare(M), met.start()
    torch.testing.assert_close(met.sums(x, prepared), grad_W, **close)
    found_x, found_W = met.gradient(x, prepared, W, again)
    torch.testing.assert_close(found_x, grad_x, **close)
    torch.testing.assert_close(found_W, grad_W, **close)
    torch.testing.assert_close(met.finish(again), grad_M, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("heads", "n"), [(1, 5000), (3, 2047), (20, 130)])
def test_many_tokens_round_as_little_as_was_counted(heads, n, dtype):
    """Against the same sums in float64, within the roundings that `Summing` counts for a chunk, the monomials' besides.

    The bound is a thousandth of the sums' size in float32; a tile that was left out or counted twice would be more.
    """
    index_set, columns = total_degree(4, 3), 3
    x, W, M = drawn(index_set, heads, n, columns, dtype)
    features = monomials(x.double(), index_set)
    met = made(index_set, heads, columns, dtype)
    state = met.start()
    met.add(state, x, W)
    counted = Summing(n, n).tokens([n])
    u = torch.finfo(dtype).eps / 2
    gamma = (min(n, 256) + 2 * index_set.degree + 2) * u + counted.count(wide=True) * 2.0**-53
    sizes = features.abs() @ W.double().abs().mT
    assert ((met.finish(state) - features @ W.double().mT).abs() <= gamma * sizes).all()
    gamma = (index_set.rank + 2 * index_set.degree + 2) * u
    sizes, sums = M.double().abs().mT @ features.abs(), M.double().mT @ features
    assert ((met.sums(x, met.prepare(M)) - sums).abs() <= gamma * sizes).all()


def test_strided_tokens_and_none():
    index_set = total_degree(3, 2)
    x, W, M = drawn(index_set, 2, 40, 5)
    met = made(index_set, 2, 5)
    want, found, nothing = met.start(), met.start(), met.start()
    met.add(want, x[..., 7:29].contiguous(), W[..., 7:29].contiguous())
    met.add(found, x[..., 7:29], W[..., 7:29])
    assert torch.equal(want[0], found[0])
    turned = x.mT.contiguous().mT
    assert torch.equal(met.sums(turned, met.prepare(M)), met.sums(x, met.prepare(M)))
    met.add(nothing, x[..., :0], W[..., :0])
    assert not nothing[0].any()
    assert met.sums(x[..., :0], met.prepare(M)).shape == (2, 5, 0)
    none = made(index_set, 0, 5)
    none.add(none.start(), x[:0], W[:0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("heads", "n"), [(1, 6000), (3, 1500)])
def test_the_same_bits_with_one_thread_and_two(heads, n, dtype):
    index_set = total_degree(5, 3)
    x, W, M = drawn(index_set, heads, n, 7, dtype)

    def run(threads):
        torch.set_num_threads(threads)
        met = made(index_set, heads, 7, dtype)
        state, prepared = met.start(), met.prepare(M)
        met.add(state, x, W)
        return met.finish(state), met.sums(x, prepared), *met.gradient(x, prepared, W, None)

    before = torch.get_num_threads()
    try:
        assert all(torch.equal(one, two) for one, two in zip(run(1), run(2), strict=True))
    finally:
        torch.set_num_threads(before)


def test_attention_by_them_is_attention_by_pytorch(monkeypatch):
    """Lengths that tiles and chunks do not divide, key masks, outputs and gradients."""
    generator = torch.Generator().manual_seed(0)
    shapes = (1, 1301, 4), (1, 1537, 4), (1, 1024, 4), (1, 1537, 3), (1, 1024, 3)
    inputs = [torch.randn(*shape, dtype=torch.float64, generator=generator).mul(0.4) for shape in shapes]
    masks = [torch.rand(1, n, generator=generator) > 0.2 for n in (1537, 1024)]

    def run():
        query, *rest = leaves = [x.clone().requires_grad_() for x in inputs]
        out = sx.tensor_attention(query, rest[:2], rest[2:], key_masks=masks, method="polynomial", tolerance=1e-9)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]

    native_results = run()
    monkeypatch.setattr("separatrix.attention.near_linear.torch.kernels_for", lambda *tensors: None)
    monkeypatch.setattr("separatrix.attention.near_linear.native_pass.kernels_for", lambda *tensors: None)
    for one, other in zip(native_results, run(), strict=True):
        assert not torch.equal(one, other)  # another order of summation: kernels were taken
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


def test_where_kernels_compute(monkeypatch):
    x = torch.empty(0)
    assert kernels_for(x) is native().library
    assert kernels_for(x, torch.empty(0, device="meta")) is None
    with FlopCounterMode(display=False):  # it counts the operators of PyTorch
        assert kernels_for(x) is None
        assert not isinstance(products(total_degree(2, 2), 1, 64, 2, x), NativeProducts)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    assert kernels_for(fake) is None
    seen = []
    torch.func.vmap(lambda one: (seen.append(kernels_for(one)), one)[1])(torch.ones(2, 3))
    assert seen == [None]
    assert not isinstance(in_pytorch(total_degree(2, 2), 1, 64, 2, x), NativeProducts)


def test_every_monomial_is_a_row_times_a_coordinate(index_set):
    left, right, parents, coordinates = laid(index_set).arrays
    rows = [(0,) * index_set.dimension]
    steps = [*(tuple(row) for row in torch.eye(index_set.dimension, dtype=torch.int64).tolist()), rows[0]]

    def times(alpha, coordinate):
        return tuple(a + b for a, b in zip(alpha, steps[coordinate], strict=True))

    for parent, coordinate in zip(parents[1:], coordinates[1:], strict=True):
        rows.append(times(rows[parent], coordinate))
    found = [times(rows[row], coordinate) for row, coordinate in zip(left, right, strict=True)]
    assert found == [tuple(alpha) for alpha in index_set.alphas.tolist()]
