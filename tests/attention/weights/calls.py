"""Calls for the tests of weights: every option, awkward shapes, and inputs whose scores are exact."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor


@st.composite
def calls(draw: Any, whole: bool) -> tuple[Tensor, list[Tensor], dict[str, Any]]:
    """A query, key sets and options of order 2 to 4, in float64.

    With `whole` the inputs are small integers, so that scores are exact in any order of summation, and many are equal.
    """
    sets = draw(st.integers(1, 3))
    d = draw(st.integers(1, 4))
    is_causal = draw(st.booleans())
    query_length = draw(st.integers(0, 7))
    offset = draw(st.integers(-3, 8))
    lengths = [draw(st.integers(0, 6)) for _ in range(sets)]
    if is_causal and offset == 0:
        lengths = [query_length] * sets
    grouped = draw(st.booleans())
    batch = draw(st.sampled_from([(2,), (2, 2)])) if grouped else draw(st.sampled_from([(), (2,), (3, 1)]))
    shared = draw(st.integers(1, 3)) if grouped else 1
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def numbers(*shape: int) -> Tensor:
        if whole:
            return torch.randint(-2, 3, shape, generator=generator).to(torch.float64)
        return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    query = numbers(*batch[:-1], batch[-1] * shared, query_length, d) if batch else numbers(query_length, d)
    keys = [numbers(*(batch if draw(st.booleans()) or grouped else ()), length, d) for length in lengths]
    masks = [
        (torch.rand(*query.shape[:-2], length, generator=generator) < 0.7) if draw(st.booleans()) else None
        for length in lengths
    ]
    return (
        query,
        keys,
        {
            "is_causal": is_causal,
            "query_offset": offset,
            "key_masks": draw(st.sampled_from([None, masks])),
            "windows": [draw(st.none() | st.integers(1, 5)) for _ in lengths] if draw(st.booleans()) else None,
            "scale": draw(st.sampled_from([0.0, 0.5, -1.0, 4.0] if whole else [None, 0.3, -1.3])),
            "enable_gqa": grouped,
        },
    )
