"""All weights of chosen queries, against the definition."""

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
from tests.pairwise import pairwise


@pytest.fixture(params=["whole", "cut"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default blocks, and blocks so small that every call is split in all its dimensions."""
    if request.param == "cut":
        monkeypatch.setattr(scores, "BLOCK", 12)
        monkeypatch.setattr(scores, "ROWS", 2)


@pytest.mark.usefixtures("sizes")
@given(calls(whole=False), st.data())
@settings(max_examples=150)
def test_equals_the_definition(call: tuple[Tensor, list[Tensor], dict[str, Any]], data: Any) -> None:
    query, keys, options = call
    length = query.shape[-2]
    queries = data.draw(st.lists(st.integers(-length, length - 1), max_size=5)) if length else []
    weights = sx.attention_weights(query, keys, queries, **options)
    expected = reference.attention_weights(query, keys, **options).movedim(-1 - len(keys), 0)
    expected = expected[torch.tensor(queries, dtype=torch.int64)].movedim(0, -1 - len(keys))
    torch.testing.assert_close(weights, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_types_are_computed_in_float32(dtype: torch.dtype) -> None:
    query, keys = draw(0, 2, 9, 4).to(dtype), [draw(1, 2, 8, 4).to(dtype), draw(2, 2, 7, 4).to(dtype)]
    weights = sx.attention_weights(query, keys, [3])
    expected = reference.attention_weights(query.double(), [key.double() for key in keys])[:, 3:4]
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.double(), expected, rtol=2e-6, atol=0)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize(
    ("sizes", "dtype", "size", "lead"),
    pairwise(
        ["whole", "cut"],
        [torch.float16, torch.bfloat16, torch.float32, torch.float64],
        [1.0, 1e2, 1e5, 1e8, 1e15],
        ["first", "last", "spread"],
    ),
    indirect=["sizes"],
)
def test_weights_of_large_scores_sum_to_one(dtype: torch.dtype, size: float, lead: str) -> None:
    """Scores near `size` differ so little that many tuples have weight, or so much that only one has."""
    query, keys = draw(0, 2, 5, 3).to(dtype), [1 + draw(1, 2, 8, 3) / 64, 1 + draw(2, 2, 7, 3) / 64]
    if lead != "spread":
        keys[0][:, 0 if lead == "first" else -1] *= 2
    narrow = [key.to(dtype) for key in keys]
    weights = sx.attention_weights(query, narrow, range(5), scale=size)
    rounding = 64 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    assert ((weights.double().sum((-1, -2)) - 1).abs() <= rounding).all()
    top = sx.top_tuples(query, narrow, k=56, scale=size)
    listed = weights.flatten(2).gather(2, top.indices[..., 0] * 7 + top.indices[..., 1])
    torch.testing.assert_close(listed, top.weights, rtol=rounding, atol=torch.finfo(weights.dtype).eps)


@pytest.mark.parametrize("precision", ["medium", "high"])
def test_weights_sum_to_one_with_reduced_float32_products(precision: str) -> None:
    query, keys = draw(0, 5, 3).float(), [1 + draw(1, 8, 3).float() / 64] * 2
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        weights = sx.attention_weights(query, keys, range(5), scale=1e8)
    finally:
        torch.set_float32_matmul_precision(before)
    assert ((weights.double().sum((-1, -2)) - 1).abs() <= 1e-5).all()


def test_weighted_values_are_the_output() -> None:
    query, keys, values = draw(0, 2, 6, 3), [draw(1, 2, 4, 3), draw(2, 2, 5, 3)], [draw(3, 2, 4, 3), draw(4, 2, 5, 3)]
    weights = sx.attention_weights(query, keys, queries=range(6))
    out = torch.einsum("hqab,hav,hbv->hqv", weights, *values)
    torch.testing.assert_close(out, sx.tensor_attention(query, keys, values))


@pytest.mark.parametrize("queries", [0, None, "01", torch.ones(2, 2), {0}])
def test_queries_are_a_list(queries: object) -> None:
    with pytest.raises(sx.ArgumentError, match=r"^queries: expected a list of the indices of queries"):
        sx.attention_weights(draw(0, 3, 2), draw(1, 3, 2), queries)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [3, -4, 1.0, True, "1", torch.tensor(0.5)])
def test_an_index_that_no_query_has_is_refused(bad: object) -> None:
    with pytest.raises(sx.ArgumentError, match=r"^queries\[1\]: expected an integer from -3 to 2"):
        sx.attention_weights(draw(0, 3, 2), draw(1, 3, 2), [0, bad])  # type: ignore[list-item]
    with pytest.raises(sx.ArgumentError, match=r"^queries: expected an empty list"):
        sx.attention_weights(draw(0, 0, 2), draw(1, 3, 2), [0])


@pytest.mark.parametrize("queries", [[2, 0, 2, -1], torch.tensor([2, 0, 2, 3]), range(3, -1, -1)])
def test_queries_in_any_order_and_more_than_once(queries: Any) -> None:
    query, key = draw(0, 4, 2), draw(1, 3, 2)
    every = sx.attention_weights(query, key, range(4))
    assert torch.equal(sx.attention_weights(query, key, queries), every[[int(i) for i in queries]])


def test_the_memory_is_that_of_the_answer_and_of_some_blocks() -> None:
    query, keys = torch.rand(1, 4, 8), [torch.rand(1, 2048, 8), torch.rand(1, 2048, 8)]
    answer = 4 * 2048**2 * 4
    assert peak_bytes(lambda: sx.attention_weights(query, keys, range(4))) < 1.4 * answer
