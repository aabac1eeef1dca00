"""Bounded layers: the outputs of their heads, against exact attention of their projections."""

from __future__ import annotations

import torch
from numpy.random import Generator
from torch import Tensor

import separatrix as sx
from separatrix.attention.checker import check
from separatrix.nn import TensorAttention
from tests.attention.fuzz.calls import ALL
from tests.attention.fuzz.manners import MANNERS, TYPES, Shapes
from tests.attention.fuzz.outcomes import REFUSED, UNPROMISED, Outcome, judged
from tests.attention.fuzz.states import can_keep, draw_relative_tolerance, promised

VALUE_POWERS = {
    torch.float64: (-1060, 1015),
    torch.float32: (-148, 120),
    torch.bfloat16: (-130, 120),
    torch.float16: (-22, 12),
}
"""The exponents of the smallest and the largest factor of the values, for each dtype."""


def fuzz_layer(rng: Generator) -> Outcome:
    """Draw a layer and its input, called or decoded, causal or padded, and check the heads against the tolerance."""
    return _fuzz_layer(rng, "layer")


def fuzz_value_ranges(rng: Generator) -> Outcome:
    """Draw a layer with values of any magnitude that their dtype represents: outputs must be finite and within the
    tolerance.
    """
    return _fuzz_layer(rng, "value ranges")


def _fuzz_layer(rng: Generator, kind: str) -> Outcome:
    dtype = TYPES[rng.choice(4, p=[0.4, 0.4, 0.1, 0.1])]
    order, heads, width = int(rng.integers(2, 5)), int(rng.integers(1, 3)), int(rng.integers(1, 5))
    length = int(rng.integers(1, 7))
    manner = str(rng.choice(list(MANNERS)))
    bound, tolerance = float(10 ** rng.uniform(-1, 0.4)), draw_relative_tolerance(rng, dtype)
    description = (
        f"order {order}, {dtype}, {heads} heads of {width}, {length} tokens, {manner}, {bound:.4g}, {tolerance:.3g}"
    )
    x, _, _ = MANNERS[manner](rng, Shapes((), (), length, (1,), heads * width, 1)).as_type(dtype)
    try:
        layer = TensorAttention(
            heads * width,
            heads,
            order,
            num_kv_heads=int(rng.choice([1, heads])),
            bound=bound,
            tolerance=tolerance,
            dtype=dtype,
            method=str(rng.choice(["auto", "polynomial"])),
            generator=torch.Generator().manual_seed(int(rng.integers(1 << 30))),
        )
        if kind == "value ranges":
            description = f"{description}, values times {_scale_values(rng, layer)}"
        found, q, keys, values, options = _heads(rng, layer, x)
    except sx.SeparatrixError as refusal:
        return Outcome(kind, REFUSED, told=f"{description}: {refusal}")
    description = f"{description}, {options}"
    if not all(bool(torch.isfinite(projected).all()) for projected in (q, *keys, *values)):
        return Outcome(kind, UNPROMISED, told=description)
    allowed = promised(tolerance, values, dtype)
    if kind == "layer" and (torch.isinf(allowed) or not can_keep(tolerance, dtype)):
        return Outcome(kind, UNPROMISED, told=description)
    return judged(kind, check(found, allowed, q, keys, values, scale=bound, queries=ALL, **options), description)


def _scale_values(rng: Generator, layer: TensorAttention) -> list[str]:
    """Multiply the values of each set by a power of two that leaves them finite; return the powers as text."""
    low, high = VALUE_POWERS[layer.temperature.dtype]
    powers = [int(rng.integers(low, high)) for _ in range(layer.order - 1)]
    project = layer.project

    def scaled(*given: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        q, keys, values = project(*given)
        most = torch.finfo(q.dtype).max
        pairs = zip(values, powers, strict=True)
        return q, keys, [(value.double() * 2.0**power).clamp(-most, most).to(q.dtype) for value, power in pairs]

    layer.project = scaled  # type: ignore[method-assign]
    return [f"2^{power}" for power in powers]


def _heads(
    rng: Generator, layer: TensorAttention, x: Tensor
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor], dict]:
    """The outputs of the heads, (heads, L, d), the projections that they attended, and the options of the attention."""
    with torch.no_grad():
        layer.temperature.fill_(float(rng.uniform(-3, 10)))
    seen = []
    layer.out_proj.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    way = rng.integers(4)
    options: dict = {}
    with torch.no_grad():
        q, keys, values = layer.project(x, x, x)
        if way == 0:
            layer(x)
        elif way == 1:
            layer(x, is_causal=True)
            options["is_causal"] = True
        elif way == 2:
            padding = torch.from_numpy(rng.random(len(x)) < 0.4)
            layer(x, key_padding_mask=padding)
            options["key_masks"] = [~padding] * len(keys)
        else:
            state = layer.state()
            cuts = [int(cut) for cut in rng.choice(len(x) + 1, rng.integers(len(x) + 1))]
            for part in x.tensor_split(sorted(cuts)):
                layer.decode(part, state)
            options["is_causal"] = True
    given = torch.cat(seen)
    return given.reshape(len(given), layer.num_heads, layer.head_dim).transpose(0, 1), q, keys, values, options
