"""Packed sequences against a loop over the sequences, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention import packed
from separatrix.attention.packed import lengths_of_runs
from separatrix.native import native
from tests.pairwise import pairwise

LENGTHS = [5, 12, 5, 1, 0, 12, 7]
CU = torch.tensor([0, *LENGTHS]).cumsum(0)


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(order: int, batch: tuple[int, ...] = (2, 3), d: int = 8, dtype: torch.dtype = torch.float32):
    total = int(CU[-1])
    keys = [draw(1 + m, *batch, total, d, dtype=dtype) for m in range(order - 1)]
    values = [draw(9 + m, *batch, total, d, dtype=dtype) for m in range(order - 1)]
    return draw(0, *batch, total, d, dtype=dtype), keys, values


def looped(query, keys, values, cu=CU, key_cu=None, offsets=None, key_masks=None, **options):
    """One call per sequence."""
    key_cu = cu if key_cu is None else key_cu
    results = []
    for s in range(len(cu) - 1):
        here, there = slice(int(cu[s]), int(cu[s + 1])), slice(int(key_cu[s]), int(key_cu[s + 1]))
        if offsets is not None:
            options["query_offset"] = offsets[s]
        if key_masks is not None:
            options["key_masks"] = [None if mask is None else mask[..., there] for mask in key_masks]
        sets = [[x[..., there, :] for x in sets] for sets in (keys, values)]
        results.append(sx.tensor_attention(query[..., here, :], *sets, return_lse=True, **options))
    outs, lses = zip(*results, strict=True)
    return torch.cat(outs, -2), torch.cat(lses, -1)


@pytest.mark.parametrize(
    ("order", "options", "dtype"),
    pairwise(
        [2, 3, 4],
        [{}, {"is_causal": True}, {"is_causal": True, "windows": 3}, {"scale": 0.5}],
        [torch.float32, torch.float64, torch.bfloat16],
    ),
)
def test_packed_sequences_are_a_loop_bit_for_bit(order, options, dtype):
    query, keys, values = inputs(order, dtype=dtype)
    if "windows" in options:
        options = {**options, "windows": [3] * (order - 1)}
    out, lse = sx.tensor_attention(query, keys, values, cu_seqlens=CU, return_lse=True, **options)
    expected, expected_lse = looped(query, keys, values, **options)
    assert torch.equal(out, expected)
    assert torch.equal(lse, expected_lse)


def test_without_a_log_sum_exp_and_without_leading_dimensions():
    query, keys, values = inputs(3, batch=())
    out = sx.tensor_attention(query, keys, values, cu_seqlens=CU.int(), is_causal=True)
    assert torch.equal(out, looped(query, keys, values, is_causal=True)[0])


def test_masks_grouped_heads_and_broadcasting():
    query, keys, values = inputs(3, batch=(2, 4))
    keys, values = [keys[0][:, :2], keys[1][:1, :2]], [values[0][:, :2], values[1][0, :2]]
    mask = draw(30, 2, 1, int(CU[-1])) > -0.5
    options = {"enable_gqa": True, "key_masks": [mask, None], "is_causal": True}
    out, lse = sx.tensor_attention(query, keys, values, cu_seqlens=CU, return_lse=True, **options)
    expected, expected_lse = looped(query, keys, values, **options)
    assert torch.equal(out, expected)
    assert torch.equal(lse, expected_lse)


def test_different_lengths_for_queries_and_keys():
    """When decoding, each sequence has some new queries after a different number of keys."""
    query, keys, values = inputs(3)
    key_lengths = LENGTHS
    new = [min(2, length) for length in key_lengths]
    cu = torch.tensor([0, *new]).cumsum(0)
    offsets = [length - count for length, count in zip(key_lengths, new, strict=True)]
    query = query[..., : int(cu[-1]), :]
    options = {"is_causal": True}
    given = {"cu_seqlens": [cu, CU, CU], "query_offsets": offsets}
    out = sx.tensor_attention(query, keys, values, **given, **options)
    kept = [s for s, offset in enumerate(offsets) if offset or new[s] == key_lengths[s]]
    assert len(kept) == len(offsets)
    assert torch.equal(out, looped(query, keys, values, cu, CU, offsets, **options)[0])
    again = sx.tensor_attention(query, keys, values, **given | {"query_offsets": torch.tensor(offsets)}, **options)
    assert torch.equal(out, again)


def test_gradients():
    query, keys, values = inputs(3, dtype=torch.float64)
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    incoming = draw(40, *query.shape, dtype=torch.float64)
    packed_out = sx.tensor_attention(query, keys, values, cu_seqlens=CU, is_causal=True)
    loop_out, _ = looped(query, keys, values, is_causal=True)
    for ours, theirs in zip(*(torch.autograd.grad(x, leaves, incoming) for x in (packed_out, loop_out)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def gradients_of_equal_lengths(order: int, heads: int, length: int, kv_heads: int | None = None, **options):
    """The gradients of three packed sequences of one length, and of a loop over them."""
    count, kv_heads = 3 * length, kv_heads or heads
    query = draw(0, heads, count, 4).requires_grad_()
    sets = [[draw(9 * i + m, kv_heads, count, 4).requires_grad_() for m in range(order - 1)] for i in (1, 2)]
    leaves, incoming = (query, *sets[0], *sets[1]), draw(40, heads, count, 4)
    options["enable_gqa"] = kv_heads < heads
    cu = torch.arange(4) * length
    outs = sx.tensor_attention(query, *sets, cu_seqlens=cu, **options), looped(query, *sets, cu, **options)[0]
    return tuple(torch.autograd.grad(out, leaves, incoming) for out in outs)


BITS = [
    (3, 9, 70, None, {}),
    (3, 9, 40, None, {"is_causal": True}),
    (3, 1, 40, None, {}),
    (3, 16, 12, 4, {}),
    (3, 9, 12, None, {"windows": [5, 5]}),
    (4, 9, 9, None, {}),
    (4, 9, 3, 3, {}),
]
"""Calls whose gradients have the bits of the loop: orders, heads, lengths, key heads and options."""


@pytest.mark.skipif(native().library is None, reason="the order of sums is that of the kernels")
@pytest.mark.parametrize(("order", "heads", "length", "kv_heads", "options"), BITS)
def test_gradients_have_the_bits_of_the_loop(order, heads, length, kv_heads, options):
    ours, theirs = gradients_of_equal_lengths(order, heads, length, kv_heads, **options)
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize(
    ("order", "heads", "length", "kv_heads", "options"),
    [(3, 8, 70, None, {}), (3, 3, 12, None, {"windows": [5, 5]}), (4, 1, 9, None, {}), (4, 12, 9, 3, {})],
)
def test_the_gradients_of_other_batches_differ_by_roundings(order, heads, length, kv_heads, options):
    """The exceptions that the docstring of `packed` names: their sums are added in another order."""
    for x, y in zip(*gradients_of_equal_lengths(order, heads, length, kv_heads, **options), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5 * float(y.abs().max()))


def test_sequences_of_equal_lengths_are_one_call(monkeypatch):
    calls = []
    check_arguments = sx.attention.operator.check_arguments

    def recorded(query, *arguments, **options):
        calls.append(tuple(query.shape))
        return check_arguments(query, *arguments, **options)

    monkeypatch.setattr(sx.attention.operator, "check_arguments", recorded)
    monkeypatch.setattr(sx.attention.operator, "plain_tuples", lambda *arguments: None)
    query, keys, values = inputs(3)
    sx.tensor_attention(query, keys, values, cu_seqlens=CU)
    assert calls == [(2, 2, 3, 5, 8), (2, 2, 3, 12, 8), (2, 3, 1, 8), (2, 3, 0, 8), (2, 3, 7, 8)]


def test_a_nan_stays_in_its_sequence():
    query, keys, values = inputs(3)
    expected = sx.tensor_attention(query, keys, values, cu_seqlens=CU)
    keys[1][..., 6, :] = torch.nan  # in the second sequence
    out = sx.tensor_attention(query, keys, values, cu_seqlens=CU)
    assert out[..., 5:17, :].isnan().all()
    for part in (slice(0, 5), slice(17, None)):
        assert torch.equal(out[..., part, :], expected[..., part, :])


def test_no_sequence_and_no_token():
    query, keys, values = inputs(3)
    empty = [x[..., :0, :] for x in (query, *keys, *values)]
    for cu in ([0], [0, 0, 0]):
        out, lse = sx.tensor_attention(empty[0], empty[1:3], empty[3:], cu_seqlens=torch.tensor(cu), return_lse=True)
        assert (out.shape, lse.shape) == ((2, 3, 0, 8), (2, 3, 0))


def test_certified_attention():
    lengths = [1500, 40, 1500]
    cu = torch.tensor([0, *lengths]).cumsum(0)
    query, *sets = (torch.tanh(draw(seed, int(cu[-1]), 3, dtype=torch.float64)) for seed in range(5))
    keys, values = sets[:2], sets[2:]
    result = sx.certified_attention(query, keys, values, cu_seqlens=cu, tolerance=1e-4)
    parts = [sx.certified_attention(*(_cut(x, cu, s) for x in (query, keys, values)), tolerance=1e-4) for s in range(3)]
    assert (result.output - torch.cat([part.output for part in parts])).abs().max() <= 2e-4
    exact = torch.cat([sx.tensor_attention(*(_cut(x, cu, s) for x in (query, keys, values))) for s in range(3)])
    error = (result.output - exact).abs()
    assert result.certificate.per_query.shape == (3040,)
    assert (error.amax(-1) <= result.certificate.per_query).all()
    assert error.max() <= result.certificate.total <= 1e-4
    assert result.plan.method in ("mixed", "polynomial")
    assert "3 packed sequences in 2 calls" in result.plan.why
    assert sx.plan_attention(query, keys, values, cu_seqlens=cu, tolerance=1e-4).method == result.plan.method
    query.requires_grad_()
    trained = sx.certified_attention(query, keys, values, cu_seqlens=cu, tolerance=1e-4)
    assert trained.certificate.gradient.query.shape == (3040,)
    assert trained.keeps == ("output", "gradient")


def _cut(x: Tensor | list[Tensor], cu: Tensor, s: int) -> Tensor | list[Tensor]:
    return [_cut(y, cu, s) for y in x] if isinstance(x, list) else x[int(cu[s]) : int(cu[s + 1])]


def test_runs_of_sequence_ids():
    ids = torch.tensor([[3, 3, 1, 1, 1], [2, 2, 2, 2, 7]])
    assert lengths_of_runs(ids).tolist() == [0, 2, 5, 9, 10]
    assert lengths_of_runs(torch.zeros(0, dtype=torch.int64)).tolist() == [0]
    for bad, message in (
        (torch.tensor([0, 1, 0]), r"a row with the ids \[0, 1, 0\]"),
        (torch.tensor([0.0]), "a tensor of integers"),
        (torch.tensor([True]), "a tensor of integers"),
        ([0, 1], "a tensor of integers"),
    ):
        with pytest.raises(sx.ArgumentError, match=message):
            lengths_of_runs(bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cu_seqlens": [0, 42]}, r"cu_seqlens: expected one tensor, or 3"),
        ({"cu_seqlens": [CU, CU, [0, 42]]}, r"cu_seqlens\[2\]: expected a tensor of cumulative lengths"),
        ({"cu_seqlens": CU.float()}, "got torch.float32 of shape"),
        ({"cu_seqlens": CU + 1}, r"which begin with 0 and never decrease, got \[1"),
        ({"cu_seqlens": torch.tensor([0, 9, 5, 42])}, r"never decrease, got \[0, 9, 5, 42\]"),
        ({"cu_seqlens": torch.tensor([0, 41])}, "query: expected 41 tokens, the last entry"),
        ({"cu_seqlens": [CU, CU, torch.tensor([0, 42])]}, r"cu_seqlens\[2\]: expected as many sequences"),
        ({"cu_seqlens": CU, "query_offsets": [1]}, "query_offsets: expected 7 integers"),
        ({"query_offsets": [1]}, "query_offsets: expected None without cu_seqlens"),
        ({"cu_seqlens": CU, "key_masks": [None]}, "key_masks: expected 2, one for each key set"),
        ({"cu_seqlens": CU, "key_masks": [torch.ones(5, dtype=torch.bool), None]}, r"key_masks\[0\]: expected 42"),
        ({"cu_seqlens": CU, "windows": [0, None]}, r"windows\[0\]: expected None or an integer >= 1"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(sx.ArgumentError, match=message):
        sx.tensor_attention(*inputs(3), **options)


def test_plans_of_one_call_are_unchanged():
    plan = sx.plan_shapes(100, 4, 0.5, 3, 1e-3)
    assert packed.merge_plans([plan], 5) is plan
