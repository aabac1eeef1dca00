"""A checked call: its heads in one dimension, tensors shared by heads, masks, and which keys a query may attend."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arguments import check_arguments
from separatrix.attention.call import Positions, check_call, grouped
from tests.contracts.attention_contract import draw, inputs


def of_heads(call):
    """The output of each head of a call by the definition, and its log-sum-exp."""
    masks = list(call.masks) or None
    return reference.tensor_attention(call.query, call.keys, call.values, key_masks=masks, scale=call.scale)


def test_leading_dimensions_become_heads_and_are_restored():
    query, key, value = draw(0, 3, 1, 4, 3), draw(1, 2, 5, 3), draw(2, 3, 1, 5, 2)
    mask = torch.rand(2, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    call = check_call(query, [key], [value], key_masks=[mask])
    assert (call.batch, call.order, call.key_lengths, call.copies) == ((3, 2), 2, (5,), 3)
    assert [tuple(x.shape) for x in (*call.tensors, *call.masks)] == [(6, 4, 3), (6, 5, 3), (6, 5, 2), (6, 5)]
    out, lse = of_heads(call)
    expected, expected_lse = reference.tensor_attention(query, [key], [value], key_masks=[mask])
    torch.testing.assert_close(call.shaped(out), expected)
    torch.testing.assert_close(call.shaped(lse), expected_lse)
    assert [count.tolist() for count in call.counts()] == [mask.sum(-1).tolist() * 3]


def test_a_mask_of_one_set_gives_all_sets_one():
    query, keys, values = inputs(3, 4, [5, 3])
    call = check_call(query, keys, values, key_masks=[None, torch.tensor([True, False, True])])
    assert [mask.sum(-1).tolist() for mask in call.masks] == [[5, 5], [2, 2]]
    assert check_call(query, keys, values).masks == ()
    assert check_call(query, keys, values).mask_of_each == (None, None)


@pytest.mark.parametrize("masked", [None, 1, 6], ids=["no mask", "one mask for all heads", "a mask for each head"])
def test_shared_heads_are_copied_by_spread_and_not_before(masked):
    query, keys, values = draw(0, 2, 6, 4, 3), [draw(1, 2, 2, 5, 3)], [draw(2, 2, 2, 5, 2)]
    masks = None if masked is None else [torch.rand(2, masked, 5, generator=torch.Generator().manual_seed(0)) < 0.7]
    given = check_arguments(query, keys, values, key_masks=masks, enable_gqa=True)
    call = grouped(given)
    assert (call.shared, call.query.shape[0], call.keys[0].shape[0]) == (3, 12, 4)
    spread = call.spread()
    assert (spread.shared, spread.keys[0].shape[0]) == (1, 12)
    assert all(mask.shape == (12, 5) for mask in spread.masks)
    out, _ = of_heads(spread)
    repeated = ([x.repeat_interleave(3, -3) for x in sets] for sets in (keys, values))
    torch.testing.assert_close(call.shaped(out), reference.tensor_attention(query, *repeated, key_masks=masks)[0])
    assert spread.spread() is spread


def test_a_widened_call_has_zeros_for_hidden_entries():
    query, key, value = (x.to(torch.bfloat16) for x in (draw(0, 1, 3, 2), draw(1, 1, 4, 2), draw(2, 1, 4, 2)))
    key[0, 1], value[0, 1] = math.nan, math.inf
    call = check_call(query, key, value, key_masks=torch.tensor([True, False, True, True]))
    wide = call.widened()
    assert {x.dtype for x in wide.tensors} == {torch.float32} == {call.computed_in}
    for hidden, original in ((wide.keys[0], key), (wide.values[0], value)):
        assert not hidden[0, 1].any()
        kept = [0, 2, 3]
        assert torch.equal(hidden[0, kept], original[0, kept].float())
    assert call.to(torch.float64).computed_in == torch.float64


def test_some_heads_are_a_call():
    query, keys, values = inputs(3, 4, [5, 3])
    call = check_call(query, keys, values, key_masks=[torch.ones(2, 5, dtype=torch.bool), None], scale=0.3)
    part = call.of_heads((1, 2))
    assert torch.equal(of_heads(part)[0], of_heads(call)[0][1:])
    assert part.batch is None
    assert part.shaped(part.query) is part.query


def test_a_changed_call_keeps_nothing_of_the_first():
    call = check_call(*inputs(2, 3, [4]))
    call.kept["described"] = "something"
    assert replace(call, scale=2.0).kept == {}


@pytest.mark.parametrize(
    ("shapes", "is_empty"),
    [
        (((1, 2), (3, 2), (3, 1)), False),
        (((0, 2), (3, 2), (3, 1)), True),
        (((1, 2), (0, 2), (0, 1)), True),
        (((0, 1, 2), (0, 3, 2), (0, 3, 1)), True),
    ],
)
def test_a_call_without_heads_queries_or_keys_is_empty(shapes, is_empty):
    assert check_call(*(torch.zeros(shape) for shape in shapes)).is_empty == is_empty


def test_gradients_are_wanted_where_autograd_records():
    query, keys, values = inputs(3, 4, [5, 3])
    assert not check_call(query, keys, values).wants_gradient
    call = check_call(query, keys, [values[0], values[1].requires_grad_()])
    assert call.wants_gradient
    with torch.no_grad():
        assert not call.wants_gradient
    assert [call.name(index) for index in range(5)] == ["query", "keys[0]", "keys[1]", "values[0]", "values[1]"]


def test_invalid_calls_are_named():
    query, keys, values = inputs(3, 4, [5, 3])
    with pytest.raises(sx.ArgumentError, match=r"^values\[1\]"):
        check_call(query, keys, [values[0], values[1][:, :2]])


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
