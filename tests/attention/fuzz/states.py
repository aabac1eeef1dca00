"""States: tokens are appended in pieces, some to a second state that is merged, saved and loaded."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from safetensors.torch import load, save
from torch import Tensor

import separatrix as sx
from separatrix.attention.checker import check
from tests.attention.fuzz.calls import ALL, draw_lengths
from tests.attention.fuzz.known import KNOWN_TO_BREAK
from tests.attention.fuzz.manners import MANNERS, TYPES, Shapes
from tests.attention.fuzz.outcomes import REFUSED, UNPROMISED, Outcome, judged


def within(x: Tensor, bound: float, norm: str, order: int) -> Tensor:
    """Vectors scaled down to the bound if they exceed it, and rounded so that no entry exceeds it."""
    wide = x.double()
    largest = wide.abs().amax(-1, keepdim=True)
    scaled = wide / torch.where(largest == 0, 1.0, largest)
    size = (
        scaled.abs().amax(-1, keepdim=True)
        if norm == "entries"
        else scaled.abs().pow(order).sum(-1, keepdim=True).pow(1 / order)
    )
    factor = (bound / (size * largest).clamp(min=1e-300)).clamp(max=1.0)
    found = (wide * factor).to(x.dtype)
    return torch.where(found.double().abs() > bound, found * (1 - torch.finfo(x.dtype).eps), found)


def draw_bounded(
    rng: Generator, order: int, norm: str
) -> tuple[dict[str, Any], tuple[Tensor, list[Tensor], list[Tensor]], str]:
    """The arguments of a state (or of shards), tokens within its bound, and the name of their entry of `MANNERS`."""
    dtype = TYPES[rng.choice(4, p=[0.4, 0.3, 0.15, 0.15])]
    d, bound = int(rng.integers(1, 7)), float(2 ** rng.uniform(-2, 1))
    radius = 10 ** rng.uniform(-1, 0.4 if rng.random() < 0.8 else 1.0)
    scale = float(radius / (bound**order * (d if norm == "entries" else 1)) * rng.choice([-1, 1]))
    manner = str(rng.choice(list(MANNERS)))
    shapes = Shapes((), (), int(rng.integers(1, 4)), draw_lengths(rng, order - 1, 200), d, int(rng.integers(1, 4)))
    query, keys, values = MANNERS[manner](rng, shapes).as_type(dtype)
    stretch = float(10 ** rng.uniform(-0.5, 1))  # many vectors at the bound, or none
    # The bound allows for the rounding of a vector: sometimes all of this allowance is used.
    most = bound * (1 + torch.finfo(dtype).eps * float(rng.choice([0.0, 0.99])))
    query, keys = (
        within(query * stretch, most, norm, order),
        [within(x * stretch, most, norm, order) for x in keys],
    )
    tolerance = draw_relative_tolerance(rng, dtype)
    return {"bound": bound, "tolerance": tolerance, "scale": scale, "norm": norm}, (query, keys, values), manner


def draw_relative_tolerance(rng: Generator, dtype: torch.dtype) -> float:
    """A tolerance from the precision of the dtype upwards; sometimes a smaller one."""
    finest = max(torch.finfo(dtype).eps * (1 if rng.random() < 0.8 else 0.01), 1e-10)
    return float(10 ** rng.uniform(math.log10(finest), -0.5))


def can_keep(tolerance: float, dtype: torch.dtype) -> bool:
    """Whether results of a dtype must be within the requested tolerance, and not only within their certificate."""
    if dtype in (torch.bfloat16, torch.float16):
        return "tolerance of a half type" not in KNOWN_TO_BREAK
    return dtype == torch.float64 or tolerance >= 1e-5 or "tolerance of float32" not in KNOWN_TO_BREAK


def promised(tolerance: float, values: list[Tensor], dtype: torch.dtype) -> Tensor:
    """The error that a tolerance allows: relative to the product of the values' largest magnitudes.

    It is infinite if that product overflows the dtype of the output, and at least the smallest positive number.
    """
    sizes = [Fraction(float(value.double().abs().max())) if value.numel() else Fraction(0) for value in values]
    magnitude, type_ = math.prod(sizes), torch.finfo(dtype)  # a Fraction, which neither overflows nor underflows
    if magnitude * (1 + Fraction(tolerance)) >= Fraction(type_.max):
        return torch.tensor(math.inf, dtype=torch.float64)
    bound = float(Fraction(tolerance) * magnitude) + type_.smallest_normal * type_.eps
    return torch.tensor(bound, dtype=torch.float64)


def fuzz_state(rng: Generator) -> Outcome:
    """Draw a state, the operations on it and a query, and check every output against its certificate."""
    order = int(rng.integers(2, 5) if rng.random() < 0.8 else rng.integers(5, 8))
    norm = str(rng.choice(["entries", "order"]))
    options, (query, keys, values), manner = draw_bounded(rng, order, norm)
    told = (
        f"order {order}, {query.dtype}, {[len(key) for key in keys]} tokens, d = {query.shape[1]}, {manner}, {options}"
    )
    try:
        state, told = _filled(rng, order, options, query, keys, values, told)
        output = state.attend(query.to(state.dtype))
    except sx.SeparatrixError as refusal:
        return Outcome("state", REFUSED, told=f"{told}: {refusal}")
    bound = torch.tensor(state.certificate.total, dtype=torch.float64)
    if can_keep(options["tolerance"], state.dtype):
        bound = torch.minimum(bound, promised(options["tolerance"], values, state.dtype))
    if torch.isinf(bound):
        return Outcome("state", UNPROMISED, told=told)
    verification = check(output, bound, query, keys, values, scale=options["scale"], queries=ALL)
    return judged("state", verification, told)


def _filled(
    rng: Generator,
    order: int,
    options: dict[str, Any],
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    told: str,
) -> tuple[sx.TensorAttentionState, str]:
    """A state with all tokens, and how they were appended."""

    def fresh(dtype: torch.dtype) -> sx.TensorAttentionState:
        return sx.TensorAttentionState(order, query.shape[1], values[0].shape[1], dtype=dtype, **options)

    states = [fresh(query.dtype), fresh(query.dtype)]
    pieces = int(rng.integers(1, 5))
    cuts = [np.sort(rng.integers(0, len(key) + 1, pieces - 1)).tolist() for key in keys]
    ends = [[0, *cut, len(key)] for cut, key in zip(cuts, keys, strict=True)]
    done = []
    for piece in range(pieces):
        which = int(rng.random() < 0.3)
        parts = [slice(end[piece], end[piece + 1]) for end in ends]
        states[which].append(
            [x[part] for x, part in zip(keys, parts, strict=True)],
            [x[part] for x, part in zip(values, parts, strict=True)],
        )
        done.append(which)
        if rng.random() < 0.2:
            another = fresh(query.dtype)
            another.load_state_dict(load(save(states[which].state_dict())))
            states[which] = another
            done.append("saved and loaded")
    states[0].merge(states[1])
    told = f"{told}, {done}"
    if "state loaded into another type" not in KNOWN_TO_BREAK and rng.random() < 0.2:
        another = fresh(torch.float64)
        another.load_state_dict(load(save(states[0].state_dict())))
        return another, f"{told}, loaded into float64"
    return states[0], told
