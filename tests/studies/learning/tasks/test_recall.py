"""k-way associative recall: its inputs have the documented form, and two constructions answer them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.studies.learning.tasks.recall import Recall, by_one_head, by_two_hops


@st.composite
def recalls(draw: st.DrawFn) -> Recall:
    order = draw(st.integers(2, 4))
    parts = draw(st.integers(2, 4))
    return Recall(order, parts, draw(st.integers(1, min(3, parts ** (order - 2)))))


def looked_up(recall: Recall, tokens: list[list[int]]) -> int:
    """The answer by the definition: records collected by their tags, then the record with the requested key."""
    k, m, P = recall.order, recall.records, recall.parts
    keys: dict[int, dict[int, int]] = {}
    values: dict[int, int] = {}
    for token in tokens[:-1]:
        (tag,) = (symbol for symbol in token if m <= symbol < 2 * m)
        (part,) = (symbol for symbol in token if 2 * m <= symbol < 2 * m + (k - 1) * P)
        keys.setdefault(tag, {})[(part - 2 * m) // P] = part
        for symbol in token:
            if symbol < m:
                values[tag] = symbol
    asked = {(symbol - 2 * m) // P: symbol for symbol in tokens[-1] if 2 * m <= symbol < 2 * m + (k - 1) * P}
    (tag,) = (tag for tag, key in keys.items() if key == asked)
    return values[tag]


@given(recalls(), st.integers(0, 1000))
def test_there_is_one_record_with_the_key_and_its_value_is_the_answer(recall: Recall, seed: int) -> None:
    batch = recall.draw(3, torch.Generator().manual_seed(seed))
    assert batch.tokens.shape[:2] == (3, recall.task.n)
    assert int(batch.tokens.max()) < recall.task.symbols
    for tokens, answer in zip(batch.tokens.tolist(), batch.answers[:, 0].tolist(), strict=True):
        assert looked_up(recall, tokens) == answer < recall.task.classes


@given(recalls(), st.integers(0, 1000))
def test_both_constructions_answer(recall: Recall, seed: int) -> None:
    batch = recall.draw(3, torch.Generator().manual_seed(seed))
    assert torch.equal(by_one_head(recall, batch.tokens), batch.answers)
    assert torch.equal(by_two_hops(recall, batch.tokens), batch.answers)


@given(recalls(), st.integers(0, 1000))
def test_every_last_part_is_shared_by_as_many_records_with_different_values(recall: Recall, seed: int) -> None:
    """A last part alone then leaves r values, of which one is right."""
    tokens = recall.draw(1, torch.Generator().manual_seed(seed)).tokens[0]
    last = tokens[-1 - recall.records : -1]
    assert set(Counter(last[:, 0].tolist()).values()) == {recall.shared}
    assert sorted(last[:, 2].tolist()) == list(range(recall.records))


def test_the_tags_carry_the_answer() -> None:
    """For two records that differ only in their first parts, exchanging the tags of these exchanges the values."""
    recall = Recall(3, parts=2, shared=2)
    batch = recall.draw(200, torch.Generator().manual_seed(0))
    swapped = batch.tokens.clone()
    first = swapped[:, : recall.records, 1]
    last = swapped[:, recall.records : -1]
    b = swapped[:, -1, 1]
    for row in range(len(swapped)):
        tags = last[row, last[row, :, 0] == b[row], 1]
        at = torch.isin(first[row], tags).nonzero()[:, 0]
        first[row, at] = first[row, at.flip(0)]
    answers = by_one_head(recall, swapped)
    assert not (answers == batch.answers).any()
    assert torch.equal(answers, by_two_hops(recall, swapped))


def test_answers_are_uniform() -> None:
    """Chi-squared with 7 degrees of freedom exceeds 45.1 with probability below 1.4e-7."""
    answers = Recall(3, 4, 2).draw(8000, torch.Generator().manual_seed(0)).answers
    counts = torch.bincount(answers[:, 0], minlength=8).double()
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 45.1


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 2, 1), "order: expected an integer >= 2, got 1"),
        ((3, 1, 1), "parts: expected an integer >= 2, got 1"),
        ((3, 2.5, 1), "parts: expected an integer >= 2, got 2.5"),
        ((2, 4, 2), "shared: expected at most parts.*= 1"),
        ((3, 2, 3), "shared: expected at most parts.*= 2"),
    ],
)
def test_bad_sizes(sizes: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Recall(*sizes)
