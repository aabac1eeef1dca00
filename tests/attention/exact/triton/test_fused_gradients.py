"""Gradients of queries and windowed prefix keys by one Triton kernel, in the interpreter, against the definition.

Query heads share keys, and windows cross blocks of queries, so that several partial sums belong to one prefix key.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from separatrix.attention import reference
from separatrix.attention.call import Call, check_call
from separatrix.attention.dispatch.gpu import vendor
from separatrix.attention.exact import triton
from separatrix.attention.exact.triton import configurations, launch
from tests.attention.exact.triton.test_programs import drawn, small_blocks  # noqa: F401
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]

SHAPES = {
    "a window longer than a block of queries": ((34, [9, 36]), {"windows": [18, 40], "query_offset": -8}),
    "earlier queries": ((20, [9, 20]), {"windows": [2, 30], "query_offset": -5}),
    "queries beyond the last prefix key": ((33, [17, 18]), {"windows": [3, 40], "query_offset": 2}),
    "a window longer than the prefix set": ((17, [5, 18]), {"windows": [9, 40], "query_offset": -8}),
    "the second set is the prefix set": ((18, [20, 18]), {"windows": [30, 3]}),
    "causal": ((18, [18, 18]), {"is_causal": True, "windows": [2, None]}),
}


@pytest.fixture(autouse=True)
def fused_here(monkeypatch):
    """Run the kernel in the interpreter as on its architectures."""
    monkeypatch.setattr(configurations, "FUSED_ON", (vendor(),))


@contextmanager
def poisoned():
    """Uninitialised memory is NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def gradients(shape, masked, dtype=torch.float64, heads=1, shared=2):
    """The gradients of a call by the kernels and by the definition, of query, keys and values."""
    (queries, lengths), options = SHAPES[shape]
    query, keys, values, generator = drawn(2, queries, lengths, 3, 2, heads, shared, dtype)
    given = [x.double().requires_grad_() for x in (query, *keys, *values)]
    if masked:
        masks = [torch.rand(heads * shared, length, generator=generator) < 0.7 for length in lengths]
        options = {**options, "key_masks": masks}
    spread = [x.repeat_interleave(shared, 0) for x in given[1:]]
    out, _ = reference.tensor_attention(given[0], spread[:2], spread[2:], **options)
    sizes = torch.tensor([1e-3, 1.0]).repeat(heads * shared)[: heads * shared].reshape(-1, 1, 1)
    grad_out = torch.rand(out.shape, dtype=out.dtype, generator=generator).to(dtype) * sizes.to(dtype)
    expected = torch.autograd.grad((out * grad_out).sum(), given)
    plain = check_call(query, *([x.to(dtype) for x in sets] for sets in (spread[:2], spread[2:])), **options)
    call = Call(query, tuple(keys), tuple(values), plain.masks, plain.positions, plain.scale)
    with poisoned():
        found_out, lse = triton.forward(call)
        by_query, by_keys, by_values = triton.backward(call, found_out, lse, grad_out, torch.zeros_like(lse))
    return call, (by_query, *by_keys, *by_values), expected


def fused_gradients_agree(shape="a window longer than a block of queries", masked=True):
    call, actual, expected = gradients(shape, masked)
    assert launch.is_fused(call, "ieee")
    for computed, exact in zip(actual, expected, strict=True):
        assert (computed - exact).abs().max() <= 1e-13 * max(1.0, exact.abs().max().item())


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_gradients_are_those_of_the_definition(shape, masked):
    fused_gradients_agree(shape, masked)


def test_low_scores_do_not_overflow_where_a_query_may_not_attend():
    """All scores are -150: the weight of a nonexistent key would be e^150, which overflows float32."""
    query, keys = torch.full((1, 3, 1), 15.0), [torch.ones(1, 17, 1), torch.full((1, 17, 1), -10.0)]
    values = [torch.ones(1, 17, 1), torch.ones(1, 17, 1)]
    call = check_call(query, keys, values, windows=[2, 60], query_offset=16)
    assert launch.is_fused(call, "ieee")
    with np.errstate(over="ignore", invalid="ignore"):  # weights that are dropped may overflow
        out, lse = triton.forward(call)
        by_query, by_keys, by_values = triton.backward(call, out, lse, torch.ones_like(out), torch.zeros_like(lse))
    assert torch.allclose(out.flatten(), torch.tensor([1.0, 1.0, 0.0]))
    assert all(x.isfinite().all() for x in (by_query, *by_keys, *by_values))
    # Query 0 attends the prefix keys 15 and 16, and query 1 attends 16.
    assert torch.allclose(by_values[0][0, 14:, 0], torch.tensor([0.0, 0.5, 1.5]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_query_gradients_have_the_same_bits_without_fusion(dtype, monkeypatch):
    """The sums of a query are in the same order in both kernels; those of a prefix key are not."""
    shape = "earlier queries"
    call, fused, expected = gradients(shape, False, dtype)
    again = gradients(shape, False, dtype)[1]
    monkeypatch.setattr(launch, "FUSED_BLOCKS", 0)
    assert not launch.is_fused(call, "ieee")
    separate = gradients(shape, False, dtype)[1]
    assert torch.equal(fused[0], separate[0])
    error = 3e-2 if dtype == torch.bfloat16 else 2e-6
    for first, second, other, exact in zip(fused, again, separate, expected, strict=True):
        assert torch.equal(first, second)
        for computed in (first, other):
            assert (computed - exact).abs().max() <= error * max(1.0, exact.abs().max().item())


@pytest.mark.parametrize(
    ("lengths", "options", "fused"),
    [
        ([4, 9], {"windows": [16 * configurations.FUSED_BLOCKS, 300]}, True),
        ([4, 9], {"windows": [16 * configurations.FUSED_BLOCKS + 1, 300]}, False),
        ([4, 9], {"windows": [None, 5]}, False),
        ([4, 9], {}, False),
        ([2, 4, 9], {"windows": [2, 2, 9]}, False),
    ],
)
def test_which_calls_are_fused(lengths, options, fused, monkeypatch):
    """The blocks have 16 queries, and only the architectures that the kernel is compiled for fuse calls."""
    query, keys, values, _ = drawn(0, 3, lengths, 2, 2)
    call = check_call(query, keys, values, **options)
    assert launch.is_fused(call, "ieee") == fused
    monkeypatch.setattr(configurations, "FUSED_ON", ())
    assert not launch.is_fused(call, "ieee")
