"""The blocks of exact attention in plain PyTorch, and what they do with entries that are not finite."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.attention import reference
from separatrix.attention.call import Call, Positions, check_call
from separatrix.attention.exact import torch as in_pytorch
from tests.contracts.attention_contract import inputs


@given(
    query_length=st.integers(0, 40),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    heads=st.integers(1, 3),
    is_causal=st.booleans(),
    offset=st.integers(-6, 12),
    windows=st.lists(st.none() | st.integers(1, 40), min_size=3, max_size=3),
    scores=st.sampled_from([1, 30, 1000, 1 << 18]),
)
def test_blocks_cover_every_allowed_tuple_once(query_length, lengths, heads, is_causal, offset, windows, scores):
    windows = tuple(windows[: len(lengths)])
    sets = tuple(torch.empty(heads, length, 2) for length in lengths)
    positions = Positions(is_causal, offset, windows)
    call = Call(torch.empty(heads, query_length, 2), sets, sets, (), positions, 1.0)
    allowed = reference.allowed_tuples(
        query_length, lengths, is_causal=is_causal, query_offset=offset, windows=windows
    ).expand(heads, query_length, *lengths)
    visits = torch.zeros(heads, query_length, *lengths, dtype=torch.int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(in_pytorch.SCORES, "cpu", scores)
        for block in in_pytorch.blocks(call, 16):
            ranges = list(block.chunk_ranges())
            assert len(ranges) == block.chunks
            for chunk in ranges:
                part = visits[(*block.rows, *(slice(*keys) for keys in chunk))]
                assert math.prod(part.shape[2:]) == 1 or part.numel() <= scores
                part += 1
    assert (visits[allowed] == 1).all()
    assert (visits <= 1).all()


def test_causal_visits_little_more_than_a_third():
    """At n = 512 the exact causal volume of order 3 is n (n + 1) (2n + 1) / 6."""
    x = torch.empty(1, 512, 4)
    call = Call(x, (x, x), (x, x), (), Positions(True, 0, (None, None)), 1.0)
    visited = sum(
        (block.queries[1] - block.queries[0]) * math.prod(stop - start for start, stop in block.keys)
        for block in in_pytorch.blocks(call)
    )
    assert visited < 0.41 * 512**3


@pytest.mark.parametrize("options", [{"is_causal": True}, {"windows": [2, 3]}])
def test_a_value_that_is_not_finite_reaches_only_queries_that_may_attend_it(options):
    """The test includes queries that are affected by another token that is not finite."""
    query, keys, values = inputs(3, 9, [9, 9])
    keys[0][:, 2] = math.inf
    values[1][:, 8, 0] = math.nan
    call = check_call(query, keys, values, **options)
    out, _ = in_pytorch.forward(call)
    expected, _ = in_pytorch.forward(check_call(query, keys, [values[0], values[1].nan_to_num(0.0)], **options))
    torch.testing.assert_close(out[:, :8], expected[:, :8], equal_nan=True)
    assert out[:, 8, 0].isnan().all()
