"""Products with monomials by the kernels in Triton, in its interpreter, against the form that defines them."""

from __future__ import annotations

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.polynomial import products as polynomial_products
from separatrix.attention.polynomial.gpu.products import GpuProducts, takes
from separatrix.attention.polynomial.greedy import greedy_alphas
from separatrix.attention.polynomial.monomials import downward_closed, total_degree
from separatrix.attention.polynomial.products import Direct, products
from tests.contracts.attention_contract import inputs
from tests.contracts.devices import plain_pytorch
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(240)]

SETS = {
    "more than a block of monomials": total_degree(4, 3),
    "one coordinate": total_degree(1, 5),
    "shaped": downward_closed(greedy_alphas([0.9, 0.4, 0.2, 0.05, 0.6], 40)),
    "a coordinate unused": downward_closed([(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 0), (1, 0, 1)]),
    "a constant": total_degree(2, 0),
}


@pytest.mark.parametrize("index_set", SETS.values(), ids=list(SETS))
@pytest.mark.parametrize(("heads", "n", "columns"), [(1, 1, 1), (2, 37, 17)])
def test_the_kernels_compute_what_plain_pytorch_does(index_set, heads, n, columns):
    generator = torch.Generator().manual_seed(0)

    def some(*shape):
        return 2 * torch.rand(*shape, generator=generator) - 1

    x, M, W = some(heads, index_set.dimension, n), some(heads, index_set.rank, columns), some(heads, columns, n)
    like = torch.empty(0)
    made = products(index_set, heads, n, columns, like)
    assert isinstance(made, GpuProducts)
    plain = Direct(index_set, heads, n, columns, torch.empty(0, dtype=torch.float64))
    state, expected = made.start(), plain.start()
    for _ in range(2):
        made.add(state, x, W)
        plain.add(expected, x.double(), W.double())
    assert made.finish(state).dtype == torch.float64
    assert torch.allclose(made.finish(state), plain.finish(expected), atol=1e-4, rtol=1e-5)
    prepared, wide = made.prepare(M.double()), plain.prepare(M.double())
    found = made.sums(x, prepared)
    assert found.shape == (heads, columns, n)
    assert torch.allclose(found.double(), plain.sums(x.double(), wide), atol=1e-5)
    more, expected_more = made.start(), plain.start()
    for ours, theirs in zip(
        made.gradient(x, prepared, W, more), plain.gradient(x.double(), wide, W.double(), expected_more), strict=True
    ):
        assert torch.allclose(ours.double(), theirs, atol=1e-4)
    assert torch.allclose(made.finish(more), plain.finish(expected_more), atol=1e-4)


def test_float64_and_wide_states_are_computed_elsewhere():
    assert takes(torch.empty(0), 128)
    assert not takes(torch.empty(0), 129)
    assert not takes(torch.empty(0, dtype=torch.float64), 4)
    assert not takes(torch.empty(0, device="meta"), 4)


@pytest.mark.parametrize("options", [{}, {"masked": True}], ids=["all", "masked"])
def test_certificates_hold(options, monkeypatch):
    """Certified attention of order 3 with all its products by the kernels: the error is within the certificate."""
    used = []
    monkeypatch.setattr(
        polynomial_products, "kernels_for", lambda *tensors: pytest.fail("the kernels in C++ were asked for")
    )
    launch = GpuProducts._launch
    monkeypatch.setattr(
        GpuProducts, "_launch", lambda self, kernel, *args: (used.append(kernel), launch(self, kernel, *args))
    )
    query, keys, values = inputs(3, 5, [40, 33], d=3, d_v=2, batch=(1,))
    given = (query.float(), [x.float() for x in keys], [x.float() for x in values])
    masks = [torch.arange(n) % 3 != 1 for n in (40, 33)] if options else None
    with plain_pytorch():
        found = sx.certified_attention(*given, tolerance=1e-2, method="polynomial", key_masks=masks)
    wide = [given[0].double(), [x.double() for x in given[1]], [x.double() for x in given[2]]]
    expected, _ = reference.tensor_attention(*wide, key_masks=masks)
    error = (found.output.double() - expected).abs().max().item()
    assert error <= found.certificate.total <= 1e-2
    assert found.plan.recipe.dtype == torch.float32
    assert set(used) == {"add_state", "against_state"}
