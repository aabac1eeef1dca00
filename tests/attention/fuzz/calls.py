"""Random calls of `certified_attention`: orders, dtypes, shapes, masks, windows, offsets, heads and manners."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import separatrix as sx
from tests.attention.fuzz.known import KNOWN_TO_BREAK
from tests.attention.fuzz.manners import MANNERS, TYPES, Shapes
from tests.attention.fuzz.outcomes import REFUSED, Outcome, judged

ALL = 1 << 30
"""More queries than any case has, so that all of them are recomputed."""


@dataclass(frozen=True)
class Call:
    """The arguments of a certified call; `options` are those that the reference also takes."""

    query: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    options: dict[str, Any]
    tolerance: float
    method: str
    manner: str
    flushed: bool = False
    kind: str = "call"

    @property
    def arguments(self) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        return self.query, self.keys, self.values

    def run(self) -> Any:
        """The certified result, in the processor mode of the case."""
        torch.set_flush_denormal(self.flushed)
        try:
            return sx.certified_attention(*self.arguments, tolerance=self.tolerance, method=self.method, **self.options)
        finally:
            torch.set_flush_denormal(False)

    def told(self) -> str:
        """A description of the case in one line."""
        shapes = [tuple(x.shape) for x in (self.query, *self.keys)]
        given = {name: value for name, value in self.options.items() if not _usual(value)}
        flushed = " with flushed subnormal numbers" if self.flushed else ""
        return f"{self.method}, {self.query.dtype}, {shapes}, {self.manner}, {self.tolerance:.3g}, {given}{flushed}"


def _usual(value: object) -> bool:
    return value is None or value is False or (isinstance(value, int) and not isinstance(value, bool) and value == 0)


def draw_lengths(rng: Generator, sets: int, tuples: int) -> tuple[int, ...]:
    """Random lengths, rarely 0, of sets with at most this number of tuples together."""
    most = max(int(tuples ** (1 / sets)), 1)
    lengths = [int(x) for x in rng.integers(1, most + 1, sets)]
    if rng.random() < 0.2:  # one set as long as the limit allows
        at = int(rng.integers(sets))
        others = math.prod(lengths) // lengths[at]
        lengths[at] = max(min(tuples // others, 200), 1)
    if rng.random() < 0.03:
        lengths[int(rng.integers(sets))] = 0
    return tuple(lengths)


def draw_dimension(rng: Generator) -> int:
    """A random dimension, mostly small, up to 64."""
    way = rng.random()
    return int(rng.integers(1, 9) if way < 0.75 else rng.integers(9, 17) if way < 0.9 else rng.integers(17, 65))


def draw_order(rng: Generator) -> int:
    """A random order from 2 to 7, mostly below 5."""
    return int(rng.integers(2, 5) if rng.random() < 0.8 else rng.integers(5, 8))


def draw_masks(rng: Generator, heads: tuple[int, ...], lengths: tuple[int, ...]) -> list[Tensor | None] | None:
    """Mostly None, otherwise a mask for some of the sets, one for all heads or one for each."""
    if rng.random() < 0.75:
        return None
    masks: list[Tensor | None] = []
    for length in lengths:
        lead = heads if rng.random() < 0.5 else ()
        shown = torch.from_numpy(rng.random((*lead, length)) < rng.choice([0.1, 0.7, 0.9]))
        masks.append(None if rng.random() < 0.3 else shown)
    return masks


def draw_call(rng: Generator, tuples: int = 400, kind: str = "call") -> Call:
    """A call whose queries attend at most about `tuples` tuples each."""
    order = draw_order(rng)
    queries = int(rng.integers(1, 7)) if rng.random() < 0.97 else 0
    lengths = draw_lengths(rng, order - 1, tuples)
    is_causal = rng.random() < 0.25
    offset = 0
    if is_causal and rng.random() < 0.5:
        offset = int(rng.integers(-3, 8)) or 1
    elif is_causal:
        lengths = (max(min(lengths), 1),) * (order - 1)
        queries = lengths[0]
    windows = None
    if rng.random() < 0.15:
        windows = [None if rng.random() < 0.4 else int(rng.integers(1, 6)) for _ in lengths]
        offset = offset if is_causal else int(rng.integers(-2, 6))
    grouped = rng.random() < 0.1
    batch: tuple[int, ...] = ()
    key_batch: tuple[int, ...] = ()
    if grouped:
        batch, key_batch = (4,), ((1,), (2,), (4,))[rng.integers(3)]
    elif rng.random() < 0.15:
        batch, key_batch = ((2,), (2,)) if rng.random() < 0.6 else ((2, 1), (1, 2))
    shapes = Shapes(batch, key_batch, queries, lengths, draw_dimension(rng), int(rng.integers(1, 5)))
    manner = str(rng.choice(list(MANNERS)))
    dtype = TYPES[rng.choice(4, p=[0.4, 0.3, 0.15, 0.15])]
    tokens = MANNERS[manner](rng, shapes).as_type(dtype)
    method = "polynomial" if rng.random() < 0.5 else str(rng.choice(["auto", "exact"]))
    heads = batch if grouped else np.broadcast_shapes(batch, key_batch)
    options = {
        "is_causal": is_causal,
        "query_offset": offset,
        "windows": windows if method != "polynomial" else None,
        "key_masks": draw_masks(rng, heads, lengths),
        "scale": (None, 1.0, -0.5, float(10 ** rng.uniform(-2, 1)))[rng.integers(4)],
        "enable_gqa": grouped,
    }
    flushed = (
        rng.random() < (0.5 if manner == "subnormal" else 0.02) and "flushed subnormal numbers" not in KNOWN_TO_BREAK
    )
    return Call(*tokens, options, draw_tolerance(rng, tokens[2], dtype), method, manner, flushed, kind)


def draw_tolerance(rng: Generator, values: list[Tensor], dtype: torch.dtype) -> float:
    """A tolerance relative to the magnitude of the output, from the precision of the dtype to a useless one."""
    size = math.prod(float(x.double().abs().max()) if x.numel() else 1.0 for x in values) or 1.0
    finest = max(torch.finfo(dtype).eps, 1e-13)
    return float(np.clip(size * 10 ** rng.uniform(math.log10(finest), 0), 1e-300, 1e300))


def fuzz_call(rng: Generator) -> Outcome:
    """Draw a call, run it, check every query."""
    return check_call(draw_call(rng))


def check_call(call: Call) -> Outcome:
    """Run a call and check every query: its outputs, its log-sum-exps, and that the certificate keeps the tolerance."""
    try:
        result = call.run()
    except sx.SeparatrixError as refusal:
        return Outcome(f"{call.kind}, {call.method}", REFUSED, told=f"{call.told()}: {refusal}")
    assert result.certificate.total <= call.tolerance, call.told()
    verification = sx.verify(result, *call.arguments, queries=ALL, **call.options)
    return judged(f"{call.kind}, {call.method}", verification, call.told())
