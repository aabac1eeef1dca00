"""Inputs with any number of leading dimensions: all of them are the batch."""

from __future__ import annotations

import pytest
import torch

from separatrix import ArgumentError
from separatrix.nn import TensorAttention
from tests.pairwise import pairwise

KINDS = {
    "order 2": {"order": 2},
    "order 3": {},
    "rotary, grouped": {"rotary": 100.0, "num_kv_heads": 1},
    "near-linear": {"bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
}


def made(kind: str, batch_first: bool = True) -> TensorAttention:
    generator = torch.Generator().manual_seed(0)
    return TensorAttention(8, 2, batch_first=batch_first, dtype=torch.float64, generator=generator, **KINDS[kind])


@pytest.mark.parametrize(
    ("kind", "leading", "batch_first"),
    pairwise(KINDS, [(), (3,), (2, 3), (2, 1, 3), (0, 2)], [True, False]),
)
def test_each_sequence_is_attended_by_itself(kind, leading, batch_first):
    layer, by_itself = made(kind, batch_first), made(kind)
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(*leading, 5, 8, dtype=torch.float64, generator=generator)
    key = torch.randn(*leading, 4, 8, dtype=torch.float64, generator=generator)
    padding = torch.rand(*leading, 4, generator=generator) < 0.4
    laid_out = [x if batch_first else x.movedim(-2, 0) for x in (query, key)]
    out = layer(*laid_out, key_padding_mask=padding)
    assert out.shape == laid_out[0].shape
    out = out if batch_first else out.movedim(0, -2)
    for index in (
        torch.cartesian_prod(*map(torch.arange, leading)).reshape(-1, len(leading)).tolist() if leading else [()]
    ):
        at = tuple(index)
        expected = by_itself(query[at], key[at], key_padding_mask=padding[at])
        torch.testing.assert_close(out[at], expected, rtol=0, atol=1e-12)


def test_a_certificate_for_each_sequence():
    layer = made("near-linear")
    assert layer.certificate(torch.ones(2, 3, 5, 8, dtype=torch.float64)).per_query.shape == (2, 3, 2, 5)


def test_batches_that_differ():
    with pytest.raises(ArgumentError, match=r"the query's batch \(2, 3\)"):
        made("order 3")(torch.ones(2, 3, 5, 8, dtype=torch.float64), torch.ones(6, 5, 8, dtype=torch.float64))


def test_decoding_has_one_batch_dimension():
    layer = made("order 3")
    with pytest.raises(ArgumentError, match="at most one batch dimension"):
        layer.decode(torch.ones(2, 3, 5, 8, dtype=torch.float64), layer.cache(2))
