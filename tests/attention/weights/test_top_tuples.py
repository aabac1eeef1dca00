"""The tuples with the largest weights of each query, against the sorted list of all tuples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.weights import scores
from tests.attention.exact.peak_bytes import peak_bytes
from tests.attention.weights.calls import calls
from tests.contracts.attention_contract import draw


@pytest.fixture(params=["whole", "cut"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default blocks, and blocks so small that every call is split in all its dimensions."""
    if request.param == "cut":
        monkeypatch.setattr(scores, "BLOCK", 12)
        monkeypatch.setattr(scores, "ROWS", 3)


@pytest.mark.usefixtures("sizes")
@given(calls(whole=True), st.integers(1, 30))
@settings(max_examples=150)
def test_equals_the_sorted_list_with_its_ties(call: tuple[Tensor, list[Tensor], dict[str, Any]], k: int) -> None:
    """Integers: all scores are exact, so that tuples, ties and the order of ties are those of the definition."""
    query, keys, options = call
    found = sx.top_tuples(query, keys, k, **options)
    indices, weights, lse = reference.top_tuples(query, keys, k, **options)
    assert torch.equal(found.indices, indices)
    torch.testing.assert_close(found.weights, weights, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(found.lse, lse, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("sizes")
@given(calls(whole=False), st.integers(1, 30))
@settings(max_examples=150)
def test_equals_the_largest_weights(call: tuple[Tensor, list[Tensor], dict[str, Any]], k: int) -> None:
    query, keys, options = call
    found = sx.top_tuples(query, keys, k, **options)
    indices, weights, lse = reference.top_tuples(query, keys, k, **options)
    torch.testing.assert_close(found.weights, weights, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(found.lse, lse, rtol=1e-10, atol=1e-10)
    assert torch.equal(found.indices == -1, indices == -1)
    # Two tuples may be exchanged only if their scores differ by a rounding error.
    all_weights = reference.attention_weights(query, keys, **options).flatten(-len(keys))
    flat = torch.zeros_like(found.indices[..., 0])
    for m, key in enumerate(keys):
        flat = flat * key.shape[-2] + found.indices[..., m].clamp(min=0)
    if all_weights.shape[-1]:
        there = found.indices[..., 0] >= 0
        own = all_weights.gather(-1, flat).masked_fill(~there, 0.0)
        torch.testing.assert_close(own, found.weights, rtol=1e-10, atol=1e-14)
        places = flat.masked_fill(~there, -1).sort(-1).values
        assert ((places[..., 1:] > places[..., :-1]) | (places[..., 1:] == -1)).all(), "a tuple is listed twice"


@pytest.mark.parametrize("order", [2, 3, 5])
def test_of_equal_tuples_the_first_are_listed(order: int) -> None:
    query, keys = torch.ones(3, 2), [torch.ones(4, 2)] * (order - 1)
    top = sx.top_tuples(query, keys, 6)
    count = 4 ** (order - 1)
    expected = torch.stack(torch.unravel_index(torch.arange(min(6, count)), (4,) * (order - 1)), -1)
    assert torch.equal(top.indices[:, :count], expected.expand(3, -1, -1))
    torch.testing.assert_close(top.weights[:, :count], torch.full((3, min(6, count)), 1 / count))


def test_a_query_with_nothing_to_attend() -> None:
    query, keys = draw(0, 3, 2), [draw(1, 4, 2), draw(2, 5, 2)]
    masks = [torch.zeros(4, dtype=torch.bool), None]
    for options in ({"key_masks": masks}, {"is_causal": True, "query_offset": -7}):
        top = sx.top_tuples(query, keys, 2, **options)
        assert top.indices.tolist() == [[[-1, -1]] * 2] * 3
        assert top.weights.tolist() == [[0.0, 0.0]] * 3
        assert top.lse.tolist() == [-torch.inf] * 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_types_are_computed_in_float32(dtype: torch.dtype) -> None:
    query, keys = draw(0, 2, 9, 4).to(dtype), [draw(1, 2, 8, 4).to(dtype), draw(2, 2, 7, 4).to(dtype)]
    top = sx.top_tuples(query, keys, 5)
    _, weights, lse = reference.top_tuples(query.double(), [key.double() for key in keys], 5)
    assert top.weights.dtype == top.lse.dtype == torch.float32
    torch.testing.assert_close(top.weights.double(), weights, rtol=2e-6, atol=0)
    torch.testing.assert_close(top.lse.double(), lse, rtol=1e-6, atol=1e-6)


def test_the_weights_are_those_of_tensor_attention() -> None:
    """If all tuples are listed, the weighted sum of their values is the output."""
    query, keys, values = draw(0, 2, 6, 3), [draw(1, 2, 4, 3), draw(2, 2, 5, 3)], [draw(3, 2, 4, 3), draw(4, 2, 5, 3)]
    top = sx.top_tuples(query, keys, 20)
    heads = torch.arange(2)[:, None, None]
    products = values[0][heads, top.indices[..., 0]] * values[1][heads, top.indices[..., 1]]
    out, lse = sx.tensor_attention(query, keys, values, return_lse=True)
    torch.testing.assert_close((top.weights.unsqueeze(-1) * products).sum(-2), out)
    torch.testing.assert_close(top.lse, lse)


@pytest.mark.parametrize("power", [-30, 30])
def test_factors_whose_products_overflow(power: int) -> None:
    """10^30 times 10^30 overflows float32, but the scores of query / 10^60 are moderate."""
    query, keys = draw(0, 5, 3), [draw(1, 6, 3), draw(2, 7, 3)]
    plain = sx.top_tuples(query, keys, 4, scale=3.0)
    scaled = [key.float() * 2.0 ** (3 * power) for key in keys]
    top = sx.top_tuples(query.float() * 2.0 ** (-3 * power), scaled, 4, scale=3 * 2.0 ** (-3 * power))
    assert torch.equal(top.indices, plain.indices)
    torch.testing.assert_close(top.weights, plain.weights.float(), rtol=1e-5, atol=0)


def test_scores_out_of_range_are_refused() -> None:
    huge = torch.full((2, 2), 1e30)
    with pytest.raises(sx.SeparatrixError, match="the scores are made of products that reach"):
        sx.top_tuples(huge, [huge, huge])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["query", "keys[0]", "keys[1]"])
def test_nonfinite_entries_are_refused_unless_masked(name: str, value: float) -> None:
    tensors = {"query": draw(0, 2, 4, 3), "keys[0]": draw(1, 2, 5, 3), "keys[1]": draw(2, 2, 6, 3)}
    tensors[name][1, 2, 0] = value
    query, *keys = tensors.values()
    with pytest.raises(sx.ArgumentError, match="expected finite numbers") as caught:
        sx.top_tuples(query, keys)
    assert caught.value.argument == name
    if name != "query":
        masks = [torch.arange(key.shape[1]) != 2 for key in keys]
        assert sx.top_tuples(query, keys, key_masks=masks).weights.isfinite().all()


@pytest.mark.parametrize("k", [0, -1, 1.0, True, "3", None])
def test_a_bad_number_of_tuples_is_refused(k: object) -> None:
    with pytest.raises(sx.ArgumentError, match=r"^k: expected an integer >= 1"):
        sx.top_tuples(draw(0, 3, 2), draw(1, 3, 2), k)  # type: ignore[arg-type]


BAD = [
    ({"keys": []}, "keys"),
    ({"keys": [draw(0, 3, 2), draw(0, 3, 3)]}, "keys[1]"),
    ({"query": draw(0, 3, 2).to("meta"), "keys": [draw(0, 3, 2).to("meta")]}, "query"),
    ({"query": draw(0, 3, 2).long()}, "query"),
    ({"is_causal": 1}, "is_causal"),
    ({"query_offset": 0.5}, "query_offset"),
    ({"is_causal": True, "query": draw(0, 4, 2)}, "keys[0]"),
    ({"key_masks": [torch.ones(3)]}, "key_masks[0]"),
    ({"windows": [0]}, "windows[0]"),
    ({"scale": float("nan")}, "scale"),
    ({"enable_gqa": True}, "query"),
]


@pytest.mark.parametrize(("change", "argument"), BAD)
@pytest.mark.parametrize("function", [sx.top_tuples, lambda *a, **k: sx.attention_weights(*a, queries=[0], **k)])
def test_bad_arguments_are_refused_as_by_tensor_attention(function: Any, change: dict, argument: str) -> None:
    call = {"query": draw(0, 3, 2), "keys": [draw(1, 3, 2)], **change}
    with pytest.raises(sx.ArgumentError) as caught:
        function(call.pop("query"), call.pop("keys"), **call)
    assert caught.value.argument == argument


@pytest.mark.parametrize("window", [2, 2**62, 2**70])
@pytest.mark.parametrize("offset", [0, 1, 2**62, -(2**62)])
def test_offsets_and_windows_of_any_length(offset: int, window: int) -> None:
    query, keys = draw(0, 4, 2), [draw(1, 4, 2), draw(2, 4, 2)]
    options = {"query_offset": offset, "is_causal": True}
    top = sx.top_tuples(query, keys, 3, windows=[window, None], **options)
    expected = reference.top_tuples(query, keys, 3, windows=[min(window, 2**63 - 1), None], **options)
    assert torch.equal(top.indices, expected[0])


def test_gradients_and_autocast_are_disabled_inside() -> None:
    query, key = draw(0, 5, 8).float().requires_grad_(), draw(1, 6, 8).float().requires_grad_()
    plain = sx.top_tuples(query, key)
    assert not plain.weights.requires_grad
    assert not plain.lse.requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(sx.top_tuples(query, key).weights, plain.weights)


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_memory_is_that_of_the_answer_and_of_some_blocks(is_causal: bool) -> None:
    """All scores would take 512 MiB, those of one query 1 MiB."""
    query, keys = torch.rand(1, 512, 8), [torch.rand(1, 512, 8), torch.rand(1, 512, 8)]
    assert 512**3 * 4 == 512 * 2**20
    answer = 512 * 4 * (2 * 8 + 4) + 512 * 4
    assert peak_bytes(lambda: sx.top_tuples(query, keys, 4, is_causal=is_causal)) < answer + 12 * 4 * scores.BLOCK


def test_heads_that_share_keys_are_not_copied_all_at_once() -> None:
    query, keys = torch.rand(32, 1, 64).half(), [torch.rand(1, 4096, 64).half(), torch.rand(1, 2, 64).half()]
    copies = 32 * 4096 * 64 * 4
    assert peak_bytes(lambda: sx.top_tuples(query, keys, 1, enable_gqa=True)) < copies / 2
