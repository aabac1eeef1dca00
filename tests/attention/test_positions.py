"""Which keys a query may attend by its position, against the definition, position by position."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.attention import reference
from separatrix.attention.positions import Positions

LENGTH, QUERIES = 6, 5
POSITIONS = st.builds(
    Positions,
    st.booleans(),
    st.integers(-4, 8),
    st.tuples(st.none() | st.integers(1, 8), st.none() | st.integers(1, 8)),
)


def literal(positions: Positions, m: int) -> torch.Tensor:
    """Which keys of set m each query may attend (queries, keys), by the definition of a call of order 2."""
    return reference.allowed_tuples(
        QUERIES,
        [LENGTH],
        is_causal=positions.is_causal,
        query_offset=positions.offset,
        windows=[positions.windows[m]],
    )


@given(POSITIONS, st.integers(0, 1))
def test_visible_ranges_and_masks_are_those_of_the_definition(positions: Positions, m: int) -> None:
    expected = literal(positions, m)
    keys = torch.arange(LENGTH)
    assert torch.equal(positions.allowed(m, (0, QUERIES), keys), expected)
    for query in range(QUERIES):
        start, stop = positions.visible(m, query, LENGTH)
        assert torch.equal((keys >= start) & (keys < stop), expected[query])
    assert expected.sum(1).max() <= positions.reaches([LENGTH, LENGTH])[m]


@given(POSITIONS, st.integers(0, 1), st.data())
def test_pairs_that_only_some_queries_may_attend_are_contested(
    positions: Positions, m: int, data: st.DataObject
) -> None:
    queries, keys = (
        sorted(data.draw(st.lists(st.integers(0, size), min_size=2, max_size=2, unique=True)))
        for size in (QUERIES, LENGTH)
    )
    hidden = torch.nonzero(~literal(positions, m)[slice(*queries), slice(*keys)].all(0)).flatten() + keys[0]
    start, stop = positions.contested(m, tuple(queries), tuple(keys))
    assert keys[0] <= start <= stop <= keys[1]
    assert all(start <= key < stop for key in hidden.tolist())


def test_a_window_of_any_set_is_detected() -> None:
    assert Positions(False, 0, (None, 2)).has_window
    assert not Positions(True, 3, (None, None)).has_window
