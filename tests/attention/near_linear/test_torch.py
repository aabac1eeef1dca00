"""Products with monomials, multiplied out or factored, against the form that defines them."""

from __future__ import annotations

import pytest
import torch

import separatrix as sx
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.approximation.monomials import downward_closed, total_degree
from separatrix.attention.near_linear.product_cost import Expanded, direct, expanded_total_degree
from separatrix.attention.near_linear.torch import Direct, Factored, expanded, factoring, in_pytorch, products

SETS = {
    "total degree 4 of 3": total_degree(3, 4),
    "total degree 3 of 9": total_degree(9, 3),
    "one coordinate": total_degree(1, 5),
    "shaped": downward_closed(greedy_alphas([0.9, 0.4, 0.2, 0.05, 0.6], 60)),
    "a coordinate unused": downward_closed([(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 0), (1, 0, 1)]),
}


def form(alphas, x, M, W):
    """B = sum_n sum_alpha x_n^alpha <M_alpha, W_n>, literally."""
    monomials = torch.stack([(x ** torch.tensor(alpha).reshape(-1, 1)).prod(1) for alpha in alphas], 1)
    return torch.einsum("han,hac,hcn->", monomials, M, W)


@pytest.fixture(params=SETS, ids=list(SETS))
def index_set(request):
    return SETS[request.param]


@pytest.mark.parametrize("kind", ["direct", "factored"])
@pytest.mark.parametrize("heads", [1, 3])
def test_products_are_the_derivatives_of_the_form(index_set, kind, heads):
    size, n, c = 7, 5, 4
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(heads, index_set.dimension, n, dtype=torch.float64, generator=generator).requires_grad_()
    M = torch.randn(heads, index_set.rank, c, dtype=torch.float64, generator=generator).requires_grad_()
    W = torch.randn(heads, c, n, dtype=torch.float64, generator=generator).requires_grad_()
    grad_x, grad_M, grad_W = torch.autograd.grad(form(index_set.alphas.tolist(), x, M, W), (x, M, W))
    x, M, W = x.detach(), M.detach(), W.detach()
    like = x.new_empty(0)
    made = {
        "direct": lambda: Direct(index_set, heads, size, c, like),
        "factored": lambda: Factored(factoring(index_set), heads, size, c, like),
    }[kind]()
    state = made.start()
    made.add(state, x[..., :2], W[..., :2])
    made.add(state, x[..., 2:], W[..., 2:])
    torch.testing.assert_close(made.finish(state), grad_M, atol=1e-12, rtol=1e-12)
    prepared = made.prepare(M)
    torch.testing.assert_close(made.sums(x, prepared), grad_W, atol=1e-12, rtol=1e-12)
    again = made.start()
    found_x, found_W = made.gradient(x, prepared, W, again)
    torch.testing.assert_close(found_x, grad_x, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(found_W, grad_W, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(made.finish(again), grad_M, atol=1e-12, rtol=1e-12)


def test_factoring_writes_fewer_rows_and_is_taken_where_it_does():
    index_set = total_degree(8, 4)
    assert expanded(index_set) == Expanded(rank=495, rows=165, pairs=4 * 165 + 4 * 35)
    like = torch.empty(0, dtype=torch.float64)
    assert isinstance(in_pytorch(index_set, 1, 64, 9, like), Factored)
    assert isinstance(in_pytorch(index_set, 1, 64, 65, like), Direct)  # as many columns cost more than they save
    assert isinstance(in_pytorch(total_degree(4, 1), 1, 64, 2, like), Direct)


def test_plain_attention_has_the_same_bits_with_any_number_of_threads(monkeypatch):
    """Lengths that chunks do not divide, key masks, outputs and gradients, and no kernels."""
    generator = torch.Generator().manual_seed(0)
    shapes = (1, 1301, 4), (1, 1537, 4), (1, 1024, 4), (1, 1537, 3), (1, 1024, 3)
    inputs = [torch.randn(*shape, dtype=torch.float64, generator=generator).mul(0.4) for shape in shapes]
    masks = [torch.rand(1, n, generator=generator) > 0.2 for n in (1537, 1024)]
    for module in ("products", "native_pass"):
        monkeypatch.setattr(f"separatrix.attention.polynomial.{module}.kernels_for", lambda *tensors: None)

    def run(threads):
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        query, *rest = leaves = [x.clone().requires_grad_() for x in inputs]
        out = sx.tensor_attention(query, rest[:2], rest[2:], key_masks=masks, method="polynomial", tolerance=1e-9)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]

    assert all(torch.equal(a, b) for a, b in zip(run(1), run(3), strict=True))


def test_states_of_narrow_monomials_are_summed_in_float64():
    index_set = total_degree(8, 4)
    made = products(index_set, 1, 16, 1, torch.empty(0, dtype=torch.float32))
    state = made.start()
    x, W = torch.ones(1, 8, 16), torch.ones(1, 1, 16)
    W[..., 0] = 2.0**24  # 2^24 + 1 is no float32
    made.add(state, x, W)
    made.add(state, x[..., :1], torch.ones(1, 1, 1))
    assert made.finish(state).dtype == torch.float64
    assert float(made.finish(state)[0, 0, 0]) == 2.0**24 + 16


@pytest.mark.parametrize("d", [1, 3, 4, 6, 9])
@pytest.mark.parametrize("degree", [0, 1, 2, 4])
def test_costs_of_total_degree_by_counting(d, degree):
    assert expanded_total_degree(d, degree) == expanded(total_degree(d, degree))


def test_no_coordinates_are_one_monomial_whatever_the_degree():
    """As where the query is zero throughout: all its coordinates are dropped."""
    assert [expanded(total_degree(0, degree)) for degree in (0, 1, 2, 5)] == [direct(1)] * 4
