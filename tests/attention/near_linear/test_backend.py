"""Every backend of near-linear attention against the defining form, and the choice of the backend."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix.attention.near_linear import backend, native
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.approximation.monomials import downward_closed, total_degree
from separatrix.native import native as installed
from separatrix.native_tensors import kernels_for

needs_kernels = pytest.mark.skipif(installed().library is None, reason="this installation has no kernels")
ON_THE_CPU = [pytest.param(native, marks=needs_kernels, id="native"), pytest.param(in_pytorch, id="torch")]
SETS = {
    "total degree 4 of 3": total_degree(3, 4),
    "total degree 3 of 9": total_degree(9, 3),
    "one coordinate": total_degree(1, 5),
    "a constant": total_degree(2, 0),
    "linear": total_degree(5, 1),
    "shaped": downward_closed(greedy_alphas([0.9, 0.4, 0.2, 0.05, 0.6], 60)),
    "a coordinate unused": downward_closed([(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 0), (1, 0, 1)]),
}


def drawn(index_set, heads, n, columns, dtype=torch.float64):
    generator = torch.Generator().manual_seed(n + columns)
    shapes = (heads, index_set.dimension, n), (heads, columns, n), (heads, index_set.rank, columns)
    return [2 * torch.rand(*shape, dtype=dtype, generator=generator) - 1 for shape in shapes]


def form(index_set, x, W, M):
    """The sum over n and alpha of x_n^alpha <M_alpha, W_n>, computed literally."""
    powers = [(x ** torch.tensor(alpha).reshape(-1, 1)).prod(1) for alpha in index_set.alphas.tolist()]
    return torch.einsum("han,hac,hcn->", torch.stack(powers, 1), M, W)


def check_products(module, index_set, heads, n, columns, dtype):
    """States, sums and gradients of random tokens are the derivatives of the defining form."""
    x, W, M = (tensor.requires_grad_() for tensor in drawn(index_set, heads, n, columns, dtype))
    grad_x, grad_W, grad_M = torch.autograd.grad(form(index_set, x.double(), W.double(), M.double()), (x, W, M))
    x, W, M = x.detach(), W.detach(), M.detach()
    close = dict.fromkeys(("atol", "rtol"), 1e-12 if dtype == torch.float64 else 2e-5)
    state, cut = torch.zeros(M.shape, dtype=torch.float64), n // 3
    module.add(index_set, state, x[..., :cut], W[..., :cut])
    module.add(index_set, state, x[..., cut:], W[..., cut:])
    torch.testing.assert_close(state.to(dtype), grad_M, **close)
    torch.testing.assert_close(module.sums(index_set, x, M), grad_W, **close)
    ours_x, ours_W = module.gradient(index_set, x, M, W)
    torch.testing.assert_close(ours_x, grad_x, **close)
    torch.testing.assert_close(ours_W, grad_W, **close)
    module.add(index_set, state, x[..., :0], W[..., :0])
    assert module.sums(index_set, x[..., :0], M).shape == (heads, columns, 0)


@pytest.mark.parametrize("module", ON_THE_CPU)
@pytest.mark.parametrize("index_set", SETS.values(), ids=list(SETS))
@pytest.mark.parametrize(("heads", "n", "columns"), [(1, 1, 1), (2, 5, 4), (3, 17, 9), (1, 300, 11), (2, 33, 29)])
def test_products_are_the_derivatives_of_the_form(module, index_set, heads, n, columns):
    check_products(module, index_set, heads, n, columns, torch.float64)


@pytest.mark.parametrize("module", ON_THE_CPU)
def test_states_of_narrow_monomials_are_summed_in_float64(module):
    index_set, state = total_degree(8, 4), torch.zeros(1, 495, 1, dtype=torch.float64)
    x, W = torch.ones(1, 8, 1), torch.ones(1, 1, 1)
    module.add(index_set, state, x, 2.0**24 * W)
    for _ in range(16):
        module.add(index_set, state, x, W)
    assert float(state[0, 0, 0]) == 2.0**24 + 16  # float32 does not represent 2^24 + 1


@needs_kernels
def test_attention_by_kernels_is_attention_by_pytorch(monkeypatch):
    """Kernels and PyTorch agree: lengths that fill no tile, key masks, outputs, gradients, any number of threads."""
    generator = torch.Generator().manual_seed(0)
    shapes = (1, 1301, 4), (1, 1537, 4), (1, 1024, 4), (1, 1537, 3), (1, 1024, 3)
    inputs = [torch.randn(*shape, dtype=torch.float64, generator=generator).mul(0.4) for shape in shapes]
    masks = [torch.rand(1, n, generator=generator) > 0.2 for n in (1537, 1024)]

    def run():
        query, *rest = leaves = [x.clone().requires_grad_() for x in inputs]
        out = sx.tensor_attention(query, rest[:2], rest[2:], key_masks=masks, method="polynomial", tolerance=1e-9)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]

    by_kernels = run()
    monkeypatch.setattr(backend, "BACKENDS", (in_pytorch,))
    plain = run()
    for ours, theirs in zip(by_kernels, plain, strict=True):
        assert not torch.equal(ours, theirs)  # kernels were used: they sum in another order
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert all(torch.equal(a, b) for a, b in zip(plain, run(), strict=True))


@needs_kernels
def test_which_backend_is_chosen():
    def chosen(*tensors, sets=2, value_dim=4):
        return backend.near_linear_backend(tensors, sets, value_dim).NAME

    x = torch.empty(1, 2, 3)
    assert chosen(x) == "native"
    assert chosen(x, sets=16) == "torch"
    assert chosen(x, x.to("meta")) == "torch"
    with FlopCounterMode(display=False):  # the mode counts the operators of PyTorch
        assert chosen(x) == "torch"
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    assert chosen(fake) == "torch"
    names = []
    torch.func.vmap(lambda y: (names.append(chosen(y)), y)[1])(x)
    assert names == ["torch"]
    assert kernels_for(x) is installed().library
