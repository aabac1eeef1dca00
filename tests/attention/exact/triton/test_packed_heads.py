"""Tiles packed with query heads that share keys, and forward passes that split their steps among programs.

They run in Triton's interpreter and are compared with the definition: with blocks of 16 rows, 3 heads cross the borders
of blocks, and 16 and 32 heads fill them.
"""

from __future__ import annotations

import math

import pytest
import torch

from separatrix.attention import reference
from separatrix.attention.call import Call, check_call
from separatrix.attention.exact import triton
from separatrix.attention.exact.triton import configurations, launch
from separatrix.attention.exact.triton.configurations import Configuration
from tests.attention.exact.triton.test_fused_gradients import fused_here, poisoned  # noqa: F401
from tests.attention.exact.triton.test_programs import drawn, small_blocks  # noqa: F401
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401
from tests.pairwise import pairwise

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]

SHAPES = {
    "windows": ((7, [40, 40]), {"windows": [2, 33], "query_offset": 30}),
    "windows from the first key on": ((19, [19, 19]), {"windows": [3, 18]}),
    "earlier queries": ((6, [5, 20]), {"windows": [2, 30], "query_offset": -4}),
    "causal": ((5, [4, 38]), {"is_causal": True, "query_offset": 32}),
    "one query": ((1, [9, 37]), {"is_causal": True, "query_offset": 36}),
    "all": ((3, [4, 21]), {}),
    "order 4": ((3, [20, 4, 20]), {"windows": [2, None, 17], "is_causal": True, "query_offset": 16}),
}


GRADIENTS = {
    "a window longer than the prefix set": ((5, [4, 33]), {"windows": [7, 40], "query_offset": 2}),
    "earlier queries": ((6, [5, 20]), {"windows": [2, 30], "query_offset": -4}),
    "whole blocks of keys": ((3, [40, 40]), {"windows": [3, 36], "query_offset": 37}),
    "causal": ((5, [5, 20]), {"is_causal": True, "windows": [2, None], "query_offset": 1}),
}


def grouped(shape, shared, masks=None, dtype=torch.float64, heads=2):
    """A call of query heads that share keys, with masks of "keys", of "queries" or None, and what it should give."""
    (queries, lengths), options = SHAPES[shape]
    query, keys, values, generator = drawn(5, queries, lengths, 3, 2, heads, shared, dtype)
    spread = [[x.double().repeat_interleave(shared, 0) for x in sets] for sets in (keys, values)]
    given, masks_of_call = dict(options), ()
    if masks:
        count = heads if masks == "keys" else heads * shared
        masks_of_call = tuple(torch.rand(count, length, generator=generator) < 0.6 for length in lengths)
        given["key_masks"] = [mask.repeat_interleave(heads * shared // count, 0) for mask in masks_of_call]
    plain = check_call(query.double(), *spread, **given)
    expected = reference.tensor_attention(query.double(), *spread, **given)
    call = Call(query, tuple(keys), tuple(values), masks_of_call, plain.positions, plain.scale)
    return call, expected


def packed_agree(shape, shared, masks=None, splits=None, dtype=torch.float64, error=1e-13):
    call, expected = grouped(shape, shared, masks, dtype)
    assert launch.is_packed(call) == (masks != "queries" and shared > 1)
    with pytest.MonkeyPatch.context() as patch, poisoned():
        if splits:
            patch.setattr(launch, "splits_of", lambda call, programs: splits)
        found = triton.forward(call)
    for x, exact in zip(found, expected, strict=True):
        assert bool(((x == exact) | ((x - exact).abs() <= error)).all())
    return found


@pytest.mark.parametrize(("shape", "shared", "masks"), pairwise(SHAPES, [3, 16, 32], [None, "keys", "queries"]))
def test_packed_tiles_compute_the_definition(shape, shared, masks):
    packed_agree(shape, shared, masks)


@pytest.mark.parametrize(("shared", "splits"), [(1, 2), (3, 3), (16, 2), (1, 50)])
@pytest.mark.parametrize("shape", SHAPES)
def test_split_steps_compute_the_definition(shape, shared, splits):
    """Split forward passes compute the definition, also if some splits have no step or a query attends nothing."""
    packed_agree(shape, shared, splits=splits)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
def test_other_types(dtype, error):
    out, lse = packed_agree("windows", 16, "keys", 2, dtype, error)
    assert (out.dtype, lse.dtype) == (dtype, torch.float32)


@pytest.mark.parametrize("shared", [3, 16])
def test_packed_tiles_without_positions_have_the_same_bits(shared):
    """Without windows and causality the blocks of keys do not depend on the rows of a tile.

    The comparison is in float64, where the interpreter adds up products row by row.
    """
    call, _ = grouped("all", shared)
    for found, spread in zip(triton.forward(call), triton.forward(call.spread()), strict=True):
        assert torch.equal(found, spread)


def packed_gradients_agree(shape, shared=16, masked=True, dtype=torch.float64, error=1e-13):
    """Compare gradients by the fused kernel with the definition; incoming gradients differ in size between heads."""
    (queries, lengths), options = GRADIENTS[shape]
    query, keys, values, generator = drawn(6, queries, lengths, 3, 2, 2, shared, dtype)
    leaves = [x.double().requires_grad_() for x in (query, *keys, *values)]
    spread = [x.repeat_interleave(shared, 0) for x in leaves[1:]]
    masks = tuple(torch.rand(2, length, generator=generator) < 0.7 for length in lengths) if masked else ()
    given = dict(options, **({"key_masks": [mask.repeat_interleave(shared, 0) for mask in masks]} if masks else {}))
    out, _ = reference.tensor_attention(leaves[0], spread[:2], spread[2:], **given)
    sizes = 10.0 ** torch.randint(-3, 1, (2 * shared, 1, 1), generator=generator)
    grad_out = (torch.rand(out.shape, dtype=out.dtype, generator=generator) * sizes).to(dtype)
    expected = torch.autograd.grad((out * grad_out).sum(), leaves)
    plain = check_call(query, *([x.detach().to(dtype) for x in sets] for sets in (spread[:2], spread[2:])), **given)
    call = Call(query, tuple(keys), tuple(values), masks, plain.positions, plain.scale)
    assert launch.is_fused(call, "ieee")
    with poisoned():
        found_out, lse = triton.forward(call)
        by_query, by_keys, by_values = triton.backward(call, found_out, lse, grad_out, torch.zeros_like(lse))
    found = (by_query, *by_keys, *by_values)
    for x, exact in zip(found, expected, strict=True):
        assert (x - exact).abs().max() <= error * max(1.0, exact.abs().max().item())
    return found


@pytest.mark.parametrize(("shape", "shared", "masked"), pairwise(GRADIENTS, [16, 32], [False, True]))
def test_packed_gradients_are_those_of_the_definition(shape, shared, masked):
    packed_gradients_agree(shape, shared, masked)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.bfloat16, 3e-2)])
def test_packed_gradients_of_other_types_have_the_same_bits_every_time(dtype, error):
    results = (packed_gradients_agree("whole blocks of keys", 16, False, dtype, error) for _ in range(2))
    assert all(torch.equal(first, second) for first, second in zip(*results, strict=True))


def test_the_same_bits_every_time():
    for first, second in zip(*(packed_agree("windows", 3, splits=2) for _ in range(2)), strict=True):
        assert torch.equal(first, second)


def test_a_prefix_key_of_one_split_outweighs_the_others():
    """With scores of 0 and 400 the sums of the other splits underflow to zero, and nothing overflows."""
    query, keys = torch.ones(1, 1, 1), [torch.tensor([[[0.0], [0.0], [400.0], [0.0]]]), torch.ones(1, 17, 1)]
    values = [torch.tensor([[[5.0], [6.0], [7.0], [8.0]]]), torch.ones(1, 17, 1)]
    call = check_call(query, keys, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "splits_of", lambda call, programs: 4)
        out, lse = triton.forward(call)
    assert out.item() == pytest.approx(7.0)
    assert lse.item() == pytest.approx(400 + math.log(17))


@pytest.mark.parametrize("splits", [2, 5])
def test_split_sums_keep_the_count_of_roundings(splits, monkeypatch):
    """The bound holds in the worst case for sums: equal weights, and values whose products are all rounded up."""
    monkeypatch.setattr(launch, "splits_of", lambda call, programs: splits)
    query, keys = torch.zeros(1, 1, 1), [torch.zeros(1, 70, 1), torch.zeros(1, 70, 1)]
    for value in (1 + 2.0**-23, 0.7):
        values = [torch.full((1, 70, 1), value), torch.full((1, 70, 1), value)]
        call = check_call(query, keys, values)
        out, _ = triton.forward(call)
        gamma = triton.summation(call, torch.float32).gamma(torch.float32)
        exact = float(torch.tensor(value).double()) ** 2
        assert abs(out.item() - exact) <= 2 * gamma * exact


@pytest.mark.parametrize(
    ("queries", "lengths", "options", "programs", "splits"),
    [
        (1, [2048, 2048], {"windows": [512, 32], "query_offset": 2047}, 8, 8),
        (1, [2048, 2048], {"windows": [512, 32], "query_offset": 2047}, 16, 8),
        (1, [2048, 2048], {"windows": [512, 32], "query_offset": 2047}, 32, 4),
        (1, [2048, 2048], {"windows": [512, 32], "query_offset": 2047}, 200, 1),
        (1, [3, 9000], {}, 1, 3),
        (1, [4096, 4096], {"is_causal": True, "query_offset": 4095}, 1, 128),
        (5, [5, 5], {"is_causal": True}, 1, 1),
    ],
)
def test_the_number_of_splits(queries, lengths, options, programs, splits):
    """There are enough splits to fill a GPU, but each split has at least one prefix key and enough scores."""
    query, keys, values, _ = drawn(0, queries, lengths, 1, 1)
    assert launch.splits_of(check_call(query, keys, values, **options), programs) == splits


def test_few_queries_are_split_by_themselves(monkeypatch):
    """One query against 300 x 300 keys has several splits, and the result of the definition."""
    monkeypatch.setattr(
        configurations, "SHIPPED", dict.fromkeys(configurations.SHIPPED, (Configuration(16, 64, 4, 1),) * 4)
    )
    query, keys, values, _ = drawn(1, 1, [300, 300], 2, 2)
    call = check_call(query, keys, values)
    assert launch.splits_of(call, 1) == 43
    expected = reference.tensor_attention(query, keys, values)
    for found, exact in zip(triton.forward(call), expected, strict=True):
        assert (found - exact).abs().max() <= 1e-13
