"""Products with monomials by the Triton kernels, in the interpreter, against the defining form."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.near_linear import backend
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.approximation.monomials import downward_closed, total_degree
from separatrix.attention.near_linear.triton import backend as triton
from separatrix.attention.near_linear.triton import launch
from tests.attention.near_linear.test_backend import check_products
from tests.contracts.attention_contract import inputs
from tests.contracts.devices import plain_pytorch
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]

SETS = {
    "more than a block of monomials": total_degree(3, 3),
    "one coordinate": total_degree(1, 5),
    "shaped": downward_closed(greedy_alphas([0.9, 0.4, 0.2, 0.05, 0.6], 20)),
    "a coordinate unused": downward_closed([(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 0), (1, 0, 1)]),
    "a constant": total_degree(2, 0),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16, so that few monomials and tokens have several blocks; another test compiles the shipped sizes."""
    shipped = launch.block_of

    def small(kernel, dtype, columns, of=None):
        return shipped(kernel, dtype, columns, of)._replace(rows=16, tokens=16)

    monkeypatch.setattr(launch, "block_of", small)
    monkeypatch.setattr(triton, "SHORTEST", 12)


@pytest.mark.parametrize("index_set", SETS.values(), ids=list(SETS))
@pytest.mark.parametrize(("heads", "n", "columns"), [(1, 1, 1), (2, 19, 17)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_they_are_the_derivatives_of_the_form(index_set, heads, n, columns, dtype):
    check_derivatives(index_set, heads, n, columns, dtype)


def check_derivatives(index_set, heads, n, columns, dtype):
    """States, sums and gradients of random tokens, against the derivatives of the defining form."""
    check_products(triton, index_set, heads, n, columns, dtype)


def test_which_tensors_are_taken():
    def takes(x, columns, sets=1):
        return triton.takes([x], sets, columns)

    assert takes(torch.empty(0), 128)
    assert takes(torch.empty(0, dtype=torch.float64), 128, 15)
    assert not takes(torch.empty(0), 129)
    assert not takes(torch.empty(0), 4, 16)
    assert not takes(torch.empty(0, device="meta"), 4)
    with FlopCounterMode(display=False):  # the mode counts the operators of PyTorch
        assert not takes(torch.empty(0), 4)
    taken = []
    torch.func.vmap(lambda x: (taken.append(takes(x, 4)), x)[1])(torch.ones(2, 3))
    assert taken == [False]


@pytest.mark.parametrize("options", [{}, {"masked": True}], ids=["all", "masked"])
def test_certificates_hold(options, monkeypatch):
    """Certified attention of order 3 with all products by the kernels: the error is within the certificate."""
    used = []
    monkeypatch.setattr(backend, "BACKENDS", (triton,))
    plain = launch.launch
    monkeypatch.setattr(
        triton, "launch", lambda kernel, *args, **given: (used.append(kernel), plain(kernel, *args, **given))
    )
    query, keys, values = inputs(3, 5, [40, 33], d=3, d_v=2, batch=(1,))
    given = (query.float(), [x.float() for x in keys], [x.float() for x in values])
    masks = [torch.arange(n) % 3 != 1 for n in (40, 33)] if options else None
    with plain_pytorch():
        result = sx.certified_attention(*given, tolerance=1e-2, method="polynomial", key_masks=masks)
    wide = [given[0].double(), [x.double() for x in given[1]], [x.double() for x in given[2]]]
    expected, _ = reference.tensor_attention(*wide, key_masks=masks)
    error = (result.output.double() - expected).abs().max().item()
    assert error <= result.certificate.total <= 1e-2
    assert result.plan.recipe.dtype == torch.float32
    assert set(used) == {"add_state", "against_state"}
