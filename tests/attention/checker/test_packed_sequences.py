"""Packed calls in the checker: a correct result passes, and an error in any one sequence is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import separatrix as sx

pytest.importorskip("flint")
LENGTHS = torch.tensor([0, 3, 3, 10, 11])


def call(**options):
    generator = torch.Generator().manual_seed(0)
    query, *rest = (torch.randn(2, 11, 3, dtype=torch.float64, generator=generator) / 2 for _ in range(5))
    arguments = {"cu_seqlens": LENGTHS, **options}
    result = sx.certified_attention(query, rest[:2], rest[2:], tolerance=1e-3, **arguments)
    return result, (query, rest[:2], rest[2:]), arguments


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True, "windows": [2, 4]},
        {"key_masks": torch.tensor([True, False] * 5 + [True])},
        {"cu_seqlens": [LENGTHS, LENGTHS, LENGTHS], "query_offsets": [0, 1, 2, 0], "is_causal": True},
    ],
)
def test_a_correct_result_passes(options):
    result, tensors, arguments = call(**options)
    verdict = sx.verify(result, *tensors, **arguments, queries=100)
    assert verdict.held
    assert verdict.queries == 22


@pytest.mark.parametrize("position", [0, 2, 5, 10])
def test_an_error_is_found_in_each_sequence(position):
    result, tensors, arguments = call()
    wrong = result.output.clone()
    wrong[1, position, 0] += 0.01
    verdict = sx.verify(replace(result, output=wrong), *tensors, **arguments, queries=100)
    assert not verdict.held
    assert verdict.worst == (1, position)


def test_every_sequence_has_a_query():
    result, tensors, arguments = call()
    assert sx.verify(result, *tensors, **arguments, queries=1).queries == 3


def test_the_tokens_as_one_sequence_are_a_different_call():
    result, tensors, _ = call()
    assert not sx.verify(result, *tensors).held


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cu_seqlens": torch.tensor([0, 5])}, r"cu_seqlens\[0\]: expected a tensor of cumulative lengths"),
        ({"cu_seqlens": [LENGTHS, LENGTHS]}, "cu_seqlens: expected one tensor, or 3"),
        ({"cu_seqlens": [LENGTHS, LENGTHS, torch.tensor([0, 11])]}, "cu_seqlens: expected as many sequences"),
        ({"cu_seqlens": None, "query_offsets": [1]}, "query_offsets: expected None without cu_seqlens"),
    ],
)
def test_refusals(options, message):
    result, tensors, _ = call()
    with pytest.raises(sx.ArgumentError, match=message):
        sx.verify(result, *tensors, **options)
