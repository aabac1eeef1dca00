"""The kernels in Triton, in its interpreter, against the definition: outputs and gradients at small, awkward sizes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from separatrix.attention import reference
from separatrix.attention.call import Call, check_call
from separatrix.attention.exact import engine, gpu, guarded
from separatrix.attention.exact.gpu import configurations
from separatrix.attention.exact.gpu.configurations import Configuration
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16, so that short sequences have several; what ships is compiled in another test."""
    shipped = dict.fromkeys(configurations.SHIPPED, Configuration(16, 16, 4, 1))
    monkeypatch.setattr(configurations, "SHIPPED", shipped)


def drawn(seed, query_length, lengths, d, d_v, heads=1, shared=1, dtype=torch.float64, size=1.0):
    generator = torch.Generator().manual_seed(seed)

    def some(*shape):
        return (size * (2 * torch.rand(*shape, dtype=torch.float64, generator=generator) - 1)).to(dtype)

    keys = [some(heads, length, d) for length in lengths]
    values = [some(heads, length, d_v) for length in lengths]
    return some(heads * shared, query_length, d), keys, values, generator


CASES = {
    "all": ((5, [2, 19], 5, 3), {}),
    "the first set is the inner one": ((3, [18, 2], 2, 17), {}),
    "causal": ((18, [3, 18], 3, 2), {"is_causal": True, "query_offset": 1}),
    "causal, later queries": ((3, [4, 20], 3, 2), {"is_causal": True, "query_offset": 15}),
    "causal, earlier queries": ((6, [3, 4], 1, 1), {"is_causal": True, "query_offset": -4}),
    "windows": ((20, [19, 21], 3, 2), {"windows": [2, 5]}),
    "windows, later queries": ((17, [5, 9], 3, 2), {"windows": [3, 30], "query_offset": 2}),
    "a window, and causality": ((19, [3, 19], 3, 2), {"is_causal": True, "windows": [None, 4], "query_offset": 1}),
    "a window on the prefix": ((18, [18, 5], 3, 2), {"windows": [2, None], "query_offset": 1}),
    "windows that end before any key": ((4, [3, 3], 2, 2), {"windows": [2, 2], "query_offset": 40}),
}


def checked(case, masked, dtype, size=1.0, seed=0):
    """The call of a case, its output and gradients by the kernels, and those by the definition, in float64."""
    shape, options = CASES[case]
    query, keys, values, generator = drawn(seed, *shape, dtype=dtype, size=size)
    options = dict(options, scale=1.3)
    if masked:
        options["key_masks"] = [torch.rand(1, key.shape[1], generator=generator) < 0.6 for key in keys]
    leaves = [x.double().requires_grad_() for x in (query, *keys, *values)]
    out, lse = reference.tensor_attention(leaves[0], leaves[1:3], leaves[3:], **options)
    empty = lse == -math.inf
    grad_out = torch.rand(out.shape, dtype=out.dtype, generator=generator).to(dtype)
    grad_lse = torch.rand(lse.shape, dtype=lse.dtype, generator=generator)
    loss = (out * grad_out).sum() + (lse.masked_fill(empty, 0.0) * grad_lse).sum()
    expected = (out.detach(), lse.detach(), *torch.autograd.grad(loss, leaves))
    call = check_call(query, keys, values, **options)
    assert engine.engine_for(call) is gpu
    found_out, found_lse = gpu.forward(call)
    by_query, by_keys, by_values = gpu.backward(call, found_out, found_lse, grad_out, grad_lse.to(found_lse.dtype))
    return (found_out, found_lse, by_query, *by_keys, *by_values), expected


def agree(found, expected, error):
    empty = expected[1] == -math.inf
    assert torch.equal(found[1] == -math.inf, empty)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        size = max(1.0, other[other.isfinite()].abs().max().item() if other.isfinite().any() else 0.0)
        assert bool(((one == other) | ((one - other).abs() <= error * size)).all())


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_compute_the_definition_and_its_gradients(case, masked):
    agree(*checked(case, masked, torch.float64), 1e-13)
