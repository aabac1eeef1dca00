"""Compare boxes with the reference mask, pair by pair."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.attention.call import Positions
from separatrix.attention.exact.torch.kronecker_rows import chunks
from separatrix.attention.exact.torch.schedule import Box, boxes
from separatrix.attention.reference import allowed_tuples


@given(
    query_length=st.integers(0, 40),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    is_causal=st.booleans(),
    offset=st.integers(-6, 12),
    windows=st.lists(st.none() | st.integers(1, 40), min_size=3, max_size=3),
)
def test_boxes_cover_every_allowed_tuple_once(query_length, lengths, is_causal, offset, windows):
    windows = tuple(windows[: len(lengths)])
    positions = Positions(is_causal, offset, windows)
    allowed = allowed_tuples(query_length, lengths, is_causal=is_causal, query_offset=offset, windows=windows)
    visits = torch.zeros(query_length, *lengths, dtype=torch.int)
    for box in boxes(query_length, lengths, positions):
        cut = tuple(slice(*r) for r in (box.queries, *box.keys))
        visits[cut] += 1
        unmasked = (slice(box.queries[0] + box.masked, box.queries[1]), *cut[1:])
        assert allowed[unmasked].all()
    assert (visits[allowed] == 1).all()
    assert (visits <= 1).all()


def test_causal_visits_little_more_than_a_third():
    """At n = 512 the exact causal volume of order 3 is n (n + 1) (2n + 1) / 6."""
    visited = sum(
        (b.queries[1] - b.queries[0]) * b.tuples for b in boxes(512, [512, 512], Positions(True, 0, (None, None)))
    )
    assert visited < 0.37 * 512**3


@given(
    ranges=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=3),
    size=st.integers(1, 20),
)
def test_chunks_split_a_box(ranges, size):
    keys = tuple((start, start + length) for start, length in ranges)
    visits = torch.zeros([stop for _, stop in keys], dtype=torch.int)
    for chunk in chunks(Box((0, 1), keys, 0), size):
        assert chunk.size <= size
        assert chunk.size == math.prod(stop - start for start, stop in chunk.rows)
        visits[tuple(slice(*r) for r in chunk.rows)] += 1
    inside = torch.zeros_like(visits)
    inside[tuple(slice(*r) for r in keys)] = 1
    assert torch.equal(visits, inside)
