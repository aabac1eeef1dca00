"""Masks that are parsed: the pattern of a mask is found, and other masks are not accepted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")

from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
    sliding_window_overlay,
)

from separatrix import ArgumentError
from separatrix.hf.masks import make_mask, read_mask

CPU = torch.device("cpu")


@st.composite
def masks(draw):
    """A mask defined entry by entry, and its sizes."""
    batch, heads = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    queries, keys = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    offset = draw(st.none() | st.integers(-1, 7))
    window = None if offset is None else draw(st.none() | st.integers(1, 7))
    seen = draw(st.lists(st.booleans(), min_size=batch * heads * keys, max_size=batch * heads * keys))
    mask = torch.zeros(batch, heads, queries, keys, dtype=torch.bool)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                for j in range(keys):
                    near = window is None or j > i + offset - window
                    past = offset is None or j <= i + offset
                    mask[b, h, i, j] = seen[(b * heads + h) * keys + j] and near and past
    return mask


@given(masks())
def test_a_pattern_gives_its_mask_or_is_refused(mask):
    """Padding may hide the difference between two patterns: another pattern with the same mask is equally good."""
    queries, keys = mask.shape[-2:]
    try:
        pattern = read_mask(mask, queries, keys)
    except ArgumentError:
        # A window whose upper end is not visible in any key is not found. It must be a pattern, because every other
        # part is one.
        seen = mask.any(-2, keepdim=True)
        assert not torch.equal(mask, seen.expand_as(mask)), "a mask of padding alone was refused"
        assert (mask.int().diff(dim=-2) < 0).any(), "a causal mask was refused"
        return
    assert torch.equal(pattern.allowed(range(queries), keys, CPU).expand_as(mask), mask)


@given(masks(), st.data())
def test_one_entry_changed_is_another_mask(mask, data):
    """Any pattern that is found gives the mask, also after a change that no pattern has."""
    changed = mask.clone()
    where = data.draw(st.integers(0, mask.numel() - 1))
    changed.view(-1)[where] ^= True
    try:
        pattern = read_mask(changed, *mask.shape[-2:])
    except ArgumentError:
        return
    assert torch.equal(pattern.allowed(range(mask.shape[-2]), mask.shape[-1], CPU).expand_as(mask), changed)


@pytest.mark.parametrize(("queries", "keys", "offset"), [(5, 5, 0), (3, 8, 5), (4, 9, 2), (1, 6, 5)])
@pytest.mark.parametrize("window", [None, 2, 3])
@pytest.mark.parametrize("padded", [False, True])
def test_masks_of_transformers(queries, keys, offset, window, padded):
    function = (
        causal_mask_function if window is None else and_masks(sliding_window_overlay(window), causal_mask_function)
    )
    attention = torch.ones(2, keys, dtype=torch.bool)
    if padded:
        attention[0, :1] = False
        attention[1, 2] = False
    options = {"q_offset": offset, "mask_function": function, "attention_mask": attention}
    mask = make_mask(2, queries, keys, allow_is_causal_skip=False, **options)
    own = sdpa_mask(2, queries, keys, allow_is_causal_skip=False, **options)
    assert torch.equal(mask, own)
    pattern = read_mask(mask, queries, keys)
    assert torch.equal(pattern.allowed(range(queries), keys, CPU).expand_as(mask), mask)
    if queries > 1 and not padded:
        assert (pattern.offset, pattern.window) == (offset, window)


@pytest.mark.parametrize("skip", [False, True])
def test_padding_is_one_row(skip):
    attention = torch.tensor([[True, True, False], [True, True, True]])
    options = {"mask_function": bidirectional_mask_function, "allow_is_bidirectional_skip": skip}
    mask = make_mask(2, 500, 3, attention_mask=attention, **options)
    assert mask.shape == (2, 1, 1, 3)
    own = sdpa_mask(2, 500, 3, attention_mask=attention, allow_is_causal_skip=False, **options)
    assert torch.equal(mask.expand_as(own), own)
    assert torch.equal(read_mask(mask, 500, 3).seen, attention.unsqueeze(1))
    nothing_hidden = make_mask(2, 500, 3, attention_mask=torch.ones_like(attention), **options)
    assert (nothing_hidden is None) == skip
    short = make_mask(2, 4, 5, attention_mask=attention, **options)  # a cache that is longer than the input
    assert short[0, 0, 0].tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("mask", "got"),
    [
        (torch.zeros(1, 1, 2, 3), "torch.float32"),
        (torch.ones(2, 3, dtype=torch.bool), r"shape \(2, 3\)"),
        (torch.ones(1, 1, 3, 3, dtype=torch.bool), r"shape \(1, 1, 3, 3\)"),
        (torch.ones(1, 1, 2, 4, dtype=torch.bool), r"shape \(1, 1, 2, 4\)"),
        ("mask", "str"),
    ],
)
def test_values_that_are_not_masks(mask, got):
    with pytest.raises(ArgumentError, match=f"attention_mask: expected .*got {got}"):
        read_mask(mask, 2, 3)
