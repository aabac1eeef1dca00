"""Attention sinks, prefixes and windows with lookahead, against the definition and its gradients."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix.attention import reference
from separatrix.errors import ArgumentError, SeparatrixError
from tests.contracts.derivatives import same_gradients
from tests.pairwise import pairwise

LENGTH = 9
CAUSAL = [
    {"sinks": 2, "windows": 3},
    {"sinks": 1, "windows": 1},
    {"sinks": 20, "windows": 2},
    {"sinks": 3, "windows": 9},
    {"prefix": 4},
    {"prefix": 1},
    {"prefix": 30},
    {"prefix": 4, "windows": 2},
    {"prefix": 4, "windows": 2, "sinks": 1},
    {"distinct": True},
    {"distinct": True, "prefix": 4},
    {"distinct": True, "sinks": 2, "windows": 3},
]
BOTH_SIDES = [
    {"lookahead": 2, "windows": 3},
    {"lookahead": 1, "windows": 1},
    {"lookahead": 2, "windows": 2, "sinks": 2},
    {"lookahead": 30, "windows": 2},
    {"lookahead": 2, "windows": 3, "distinct": True},
]


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(order: int, length: int = LENGTH, heads: tuple[int, int] = (4, 4), dtype: torch.dtype = torch.float64):
    keys = [draw(1 + m, 2, heads[1], length, 3, dtype=dtype) for m in range(order - 1)]
    values = [draw(9 + m, 2, heads[1], length, 2, dtype=dtype) for m in range(order - 1)]
    return draw(0, 2, heads[0], length, 3, dtype=dtype), keys, values


def definition(query, keys, values, windows=None, key_masks=None, **options):
    sets = len(keys)
    windows = [windows] * sets if isinstance(windows, int) else windows
    masks = [key_masks] * sets if isinstance(key_masks, Tensor) else key_masks
    return reference.tensor_attention(query, keys, values, windows=windows, key_masks=masks, **options)


MASK = torch.tensor([True, False, True, True, True, False, True, True, True])


@pytest.mark.parametrize(
    ("order", "places", "more", "sharp"),
    pairwise(
        [2, 3, 4],
        [{"is_causal": True, **places} for places in CAUSAL] + BOTH_SIDES,
        [{}, {"key_masks": MASK}, {"enable_gqa": True}, {"query_offset": 2}, {"query_offset": -3}],
        [1.0, 8.0],
    ),
)
def test_outputs_and_gradients_are_those_of_the_definition(order, places, more, sharp):
    query, keys, values = inputs(order, heads=(4, 2) if "enable_gqa" in more else (4, 4))
    leaves = [x.requires_grad_() for x in (query * sharp, *keys, *values)]
    options = {"scale": 0.7, **places, **more}

    def finite(attend, *tensors):
        out, lse = attend(tensors[0], tensors[1:order], tensors[order:], **options)
        return out, lse.masked_fill(lse.isneginf(), 0.0)

    ours = partial(sx.tensor_attention, return_lse=True)
    out, lse = ours(leaves[0], leaves[1:order], leaves[order:], **options)
    torch.testing.assert_close((out, lse), definition(leaves[0], leaves[1:order], leaves[order:], **options))
    same_gradients(partial(finite, ours), partial(finite, definition), leaves, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("places", [CAUSAL[0], CAUSAL[4], CAUSAL[9]])
def test_other_types(places, dtype):
    query, keys, values = inputs(3, dtype=dtype)
    out = sx.tensor_attention(query, keys, values, is_causal=True, **places)
    wide = [x.double() for x in (query, *keys, *values)]
    expected, _ = definition(wide[0], wide[1:3], wide[3:], is_causal=True, **places)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=12 * torch.finfo(dtype).eps)


def test_each_key_set_has_its_own_window_and_only_windows_have_sinks():
    query, keys, values = inputs(3)
    options = {"is_causal": True, "windows": [None, 2], "sinks": 2}
    torch.testing.assert_close(
        sx.tensor_attention(query, keys, values, **options), definition(query, keys, values, **options)[0]
    )


def test_key_sets_may_have_other_lengths():
    query, keys, values = inputs(3)
    keys, values = [keys[0], keys[1][..., :5, :]], [values[0], values[1][..., :5, :]]
    for places in ({"windows": [3, 2], "sinks": 2, "lookahead": 1}, {"distinct": True}):
        torch.testing.assert_close(
            sx.tensor_attention(query, keys, values, **places), definition(query, keys, values, **places)[0]
        )


def test_sinks_cost_the_tuples_that_are_attended():
    """With a window of 8 and 2 sinks a query attends at most 100 pairs; causal attention has 16,000 on average."""
    length, window, sinks = 256, 8, 2
    x = draw(0, 1, length, 4, dtype=torch.float32)

    def flops(**options) -> float:
        with FlopCounterMode(display=False) as counter:
            sx.tensor_attention(x, [x, x], [x, x], return_lse=True, **options)
        return counter.get_total_flops()

    all_pairs = flops() / length**2
    assert flops(windows=window, sinks=sinks) <= 1.05 * all_pairs * (window + sinks) ** 2
    assert flops(is_causal=True, prefix=64) <= 1.05 * (flops(is_causal=True) + all_pairs * 64**2)


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # dynamo's own
def test_distinct_tuples_are_compiled_in_one_graph(order):
    """Some queries are computed one by one: at order 3 not all of them are."""
    query, keys, values = inputs(order)

    def run(*tensors: Tensor) -> Tensor:
        options = {"distinct": True, "scale": 2.0, "is_causal": True, "key_masks": MASK}
        out, lse = sx.tensor_attention(tensors[0], tensors[1:order], tensors[order:], return_lse=True, **options)
        return out.sin().sum() + lse[..., order:].sum()

    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    torch._dynamo.reset()
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    results = [(total, *torch.autograd.grad(total, leaves)) for total in (run(*leaves), compiled(*leaves))]
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)
    functional = torch.compile(torch.func.grad(run), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(functional(*leaves).detach(), results[0][1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("places", [CAUSAL[0], CAUSAL[4], CAUSAL[9], {"lookahead": 2, "windows": 3}])
def test_packed_sequences_restart_positions(places):
    query, keys, values = inputs(3)
    options = {**places, "is_causal": "lookahead" not in places}
    out = sx.tensor_attention(query, keys, values, cu_seqlens=torch.tensor([0, 4, 9]), **options)
    sequences = [slice(0, 4), slice(4, 9)]
    expected = [
        definition(
            *(
                ([x[..., s, :] for x in sets]) if isinstance(sets, list) else sets[..., s, :]
                for sets in (query, keys, values)
            ),
            **options,
        )[0]
        for s in sequences
    ]
    torch.testing.assert_close(out, torch.cat(expected, -2))


def test_a_tolerance_is_kept_by_prefixes_and_lookahead():
    query, keys, values = inputs(3)
    for options in ({"is_causal": True, "prefix": 4}, {"windows": 3, "lookahead": 2}):
        out = sx.tensor_attention(query, keys, values, tolerance=1e-3, **options)
        assert (out - definition(query, keys, values, **options)[0]).abs().max() <= 1e-3


def test_a_hidden_nan_stays_hidden():
    query, keys, values = inputs(3)
    keys[0][..., 4, :] = values[1][..., 4, :] = torch.nan
    out = sx.tensor_attention(query, keys, values, is_causal=True, windows=2, sinks=2)
    assert out.isnan().any(-1).sum((0, 1)).tolist() == [0, 0, 0, 0, 8, 8, 0, 0, 0]
    out = sx.tensor_attention(query, keys, values, is_causal=True, distinct=True)
    assert not out[..., :4, :].isnan().any()
    assert out[..., 4:, :].isnan().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sinks": 2}, "sinks: expected 0 for a call without windows, got 2"),
        ({"lookahead": 2}, "lookahead: expected 0 for a call without windows, got 2"),
        ({"lookahead": 2, "windows": 2, "is_causal": True}, "lookahead: expected 0 for a causal call, got 2"),
        ({"prefix": 2}, "prefix: expected 0 for a call that is not causal, got 2"),
        ({"sinks": -1, "windows": 2}, "sinks: expected an integer >= 0, got -1"),
        ({"prefix": 1.5, "is_causal": True}, "prefix: expected an integer >= 0, got 1.5"),
        ({"distinct": 1}, "distinct: expected True or False, got 1"),
        ({"sinks": 1, "windows": 2, "tolerance": 1e-3}, "sinks: expected 0 with a tolerance"),
        ({"distinct": True, "tolerance": 1e-3}, "distinct: expected False with a tolerance"),
        ({"sinks": 1, "windows": [2]}, "windows: expected 2, one for each key set, got 1"),
    ],
)
def test_invalid_combinations(options, message):
    with pytest.raises(ArgumentError, match=message):
        sx.tensor_attention(*inputs(3), **options)
    assert issubclass(ArgumentError, SeparatrixError)
