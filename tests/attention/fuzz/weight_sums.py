"""In every function that returns weights, the weights of a query sum to 1 for scores of any size."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from numpy.random import Generator
from torch import Tensor

import separatrix as sx
from tests.attention.fuzz.calls import draw_call
from tests.attention.fuzz.outcomes import BROKEN, HELD, REFUSED, Outcome

ROUNDINGS = 32
"""Roundings of a weight and of a sum of some hundred weights, in units of the dtype: blocks are summed pairwise."""


def fuzz_weights(rng: Generator) -> Outcome:
    """Draw a call, multiply its scores by up to 10^8, and sum the weights of every query."""
    call = draw_call(rng, tuples=100, kind="weights")
    scale = (call.options["scale"] or 1.0) * float(10 ** (rng.uniform(0, 8) if rng.random() < 0.7 else 0.0))
    call = replace(call, options={**call.options, "scale": scale})
    try:
        sums, expected = weight_sums(rng, call.query, call.keys, call.options)
    except sx.SeparatrixError as refusal:
        return Outcome("weights", REFUSED, told=f"{call.told()}: {refusal}")
    unit = torch.finfo(torch.promote_types(call.query.dtype, torch.float32)).eps
    error = float((sums - expected).abs().max()) if sums.numel() else 0.0
    ratio = error / (ROUNDINGS * unit)
    if not ratio <= 1:
        return Outcome("weights", BROKEN, ratio, f"{call.told()}\nweights sum to {sums.flatten().tolist()}")
    return Outcome("weights", HELD, ratio, call.told())


def weight_sums(rng: Generator, query: Tensor, keys: list[Tensor], options: dict) -> tuple[Tensor, Tensor]:
    """The sums of each query's weights, and the expected sums: 1, or 0 if there is nothing to attend."""
    most = math.prod(key.shape[-2] for key in keys)
    top = sx.top_tuples(query, keys, k=max(most, 1), **options)
    expected = (top.lse > -math.inf).double()
    weights = sx.attention_weights(query, keys, range(query.shape[-2]), **options)
    sums = [top.weights.double().sum(-1), weights.double().flatten(-len(keys)).sum(-1)]
    if len(keys) == 2 and query.dim() == 2 and most and query.shape[-2]:
        at = int(rng.integers(query.shape[-2]))
        mapped = sx.pair_map(query, keys, at, **options)
        sums += [part.sum() - expected[at] + expected for part in (mapped.cells, mapped.first, mapped.second)]
    return torch.stack(sums), expected
