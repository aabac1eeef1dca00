"""Errors quote a string that was given as an argument, so that '1e-3' is not read as the number 1e-3."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import separatrix as sx
from separatrix.studies.learning import mechanisms

QUERY = torch.zeros(2, 3)
CALL = (QUERY, [QUERY, QUERY], [QUERY, QUERY])
SETTING = {"n": 200, "d": 12, "m": 15, "a0": "0.01", "a1": "1.2", "b": "0.2", "c": "0.8"}
CALLS: dict[str, Callable[[], object]] = {
    "method": lambda: sx.tensor_attention(*CALL, method="word"),
    "scale": lambda: sx.tensor_attention(*CALL, scale="word"),  # type: ignore[arg-type]
    "windows": lambda: sx.tensor_attention(*CALL, windows=("word", None), is_causal=True),  # type: ignore[arg-type]
    "tolerance": lambda: sx.certified_attention(*CALL, tolerance="word"),  # type: ignore[arg-type]
    "is_causal": lambda: sx.tensor_attention(*CALL, is_causal="word"),  # type: ignore[arg-type]
    "query_offset": lambda: sx.tensor_attention(*CALL, query_offset="word"),  # type: ignore[arg-type]
    "feature_map": lambda: sx.linear_attention(QUERY, QUERY, QUERY, feature_map="word"),
    "norm": lambda: sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=0.1, norm="word"),  # type: ignore[arg-type]
    "order": lambda: sx.TensorAttentionState("word", 2, 2, bound=1.0, tolerance=0.1),  # type: ignore[arg-type]
    "weights": lambda: sx.separation.SelfAttention(**{**SETTING, "weights": "word"}),  # type: ignore[arg-type]
    "b": lambda: sx.separation.SelfAttention(**{**SETTING, "b": "word"}),  # type: ignore[arg-type]
    "mechanism": lambda: mechanisms.mechanism("word"),
}


@pytest.mark.parametrize("argument", CALLS)
def test_errors_quote_the_string_that_was_given(argument: str) -> None:
    with pytest.raises(sx.SeparatrixError, match=rf"^{argument}\b.*got 'word'\."):
        CALLS[argument]()
