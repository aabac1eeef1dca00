"""Awkward tensors: heavy tails, subnormal numbers, colinear, equal and zero rows, very different magnitudes.

A manner is a way to draw all tensors of a call together: large entries of one tensor may meet tiny entries of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Sets = list[Array]

TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Shapes:
    """The shapes of a call: query (*batch, queries, d), keys and values (*key_batch, lengths[m], d or d_v)."""

    batch: tuple[int, ...]
    key_batch: tuple[int, ...]
    queries: int
    lengths: tuple[int, ...]
    d: int
    d_v: int


@dataclass
class Tokens:
    """The tensors of a call before they are rounded to its dtype."""

    query: Array
    keys: Sets
    values: Sets

    def as_type(self, dtype: torch.dtype) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Round to the dtype; numbers beyond its range become its largest number."""
        return _rounded(self.query, dtype), *([_rounded(x, dtype) for x in part] for part in (self.keys, self.values))


def _rounded(x: Array, dtype: torch.dtype) -> Tensor:
    most = torch.finfo(dtype).max
    return torch.from_numpy(x.clip(-most, most)).to(dtype)


def normal(rng: Generator, shapes: Shapes) -> Tokens:
    """Normal numbers, with a random magnitude for each tensor."""

    def draw(batch: Sequence[int], length: int, width: int) -> Array:
        return rng.standard_normal((*batch, length, width)) * 10 ** rng.uniform(-1.5, 0.3)

    return Tokens(
        draw(shapes.batch, shapes.queries, shapes.d),
        [draw(shapes.key_batch, length, shapes.d) for length in shapes.lengths],
        [draw(shapes.key_batch, length, shapes.d_v) for length in shapes.lengths],
    )


def each(change: Callable[[Generator, Array], Array]) -> Callable[[Generator, Shapes], Tokens]:
    """Normal numbers, with every tensor changed in the same way."""

    def manner(rng: Generator, shapes: Shapes) -> Tokens:
        made = normal(rng, shapes)
        return Tokens(
            change(rng, made.query), [change(rng, x) for x in made.keys], [change(rng, x) for x in made.values]
        )

    return manner


def heavy_tails(rng: Generator, x: Array) -> Array:
    """Student's t with 1.5 degrees of freedom."""
    return rng.standard_t(1.5, x.shape) * np.abs(x).mean() if x.size else x


def sparse(rng: Generator, x: Array) -> Array:
    """Most entries zero."""
    return x * (rng.random(x.shape) < 0.3)


def equal_rows(rng: Generator, x: Array) -> Array:
    """All rows are equal."""
    return np.broadcast_to(x[..., :1, :], x.shape).copy()


def colinear_rows(rng: Generator, x: Array) -> Array:
    """All rows are multiples of one row."""
    return x[..., :1, :] * rng.standard_normal((*x.shape[:-1], 1))


def zero_rows(rng: Generator, x: Array) -> Array:
    """Some rows are zero."""
    return x * (rng.random((*x.shape[:-1], 1)) < 0.6)


def columns_far_apart(rng: Generator, x: Array) -> Array:
    """Coordinates with magnitudes from 10^-8 to 1."""
    return x * 10.0 ** rng.uniform(-8, 0.2, x.shape[-1])


def positive(rng: Generator, x: Array) -> Array:
    """Positive entries, so that nothing cancels."""
    return np.abs(x)


def whole_numbers(rng: Generator, x: Array) -> Array:
    """Small integers: ties and exact cancellations."""
    return rng.integers(-2, 3, x.shape).astype(np.float64)


def tiny(rng: Generator, x: Array) -> Array:
    """All entries are far below 1."""
    return x * 10.0 ** rng.uniform(-30, -5)


def aligned(rng: Generator, shapes: Shapes) -> Tokens:
    """Keys parallel to the query: scores are as large as Hoelder's inequality allows."""
    made = normal(rng, shapes)
    if made.query.size:
        direction = made.query.reshape(-1, shapes.d)[0]
        power = np.sign(direction) * np.abs(direction)
        made.keys = [
            np.abs(x[..., :1]) * power if m == 0 else np.abs(x[..., :1]) * np.abs(direction)
            for m, x in enumerate(made.keys)
        ]
    return made


def few_directions(rng: Generator, shapes: Shapes) -> Tokens:
    """Query and keys that are almost zero in all but a few directions of a random basis."""
    made = normal(rng, shapes)
    d = shapes.d
    mixing = rng.standard_normal((d, d)) @ np.diag(10.0 ** rng.uniform(-5, 0, d)) @ rng.standard_normal((d, d)) / d
    return Tokens(made.query @ mixing, [x @ mixing for x in made.keys], made.values)


def far_from_zero(rng: Generator, shapes: Shapes) -> Tokens:
    """Keys close to each other and far from the origin."""
    made = normal(rng, shapes)
    made.keys = [0.1 * x + rng.standard_normal(shapes.d) * 10 ** rng.uniform(0, 1.5) for x in made.keys]
    made.query = made.query * 0.1
    return made


def constant_values(rng: Generator, shapes: Shapes) -> Tokens:
    """Values whose averages are all equal."""
    made = normal(rng, shapes)
    made.values = [np.full_like(x, 10 ** rng.uniform(-3, 1)) for x in made.values]
    return made


def nearly_constant_values(rng: Generator, shapes: Shapes) -> Tokens:
    """Values that differ in their last digits."""
    made = constant_values(rng, shapes)
    made.values = [x * (1 + 1e-6 * rng.standard_normal(x.shape)) for x in made.values]
    return made


def values_far_apart(rng: Generator, shapes: Shapes) -> Tokens:
    """Value sets, and sometimes single values, with magnitudes that differ by factors up to 10^18."""
    made = normal(rng, shapes)
    made.values = [x * 10.0 ** rng.uniform(-9, 9) for x in made.values]
    if rng.random() < 0.5:
        made.values = [x * 10.0 ** rng.uniform(-6, 0, (*x.shape[:-1], 1)) for x in made.values]
    return made


def moved_powers(rng: Generator, shapes: Shapes) -> Tokens:
    """The query is multiplied by a power of two and a key set divided by it, so that large entries meet tiny ones."""
    made = normal(rng, shapes)
    power = 2.0 ** int(rng.integers(-100, 100))
    which = int(rng.integers(len(made.keys)))
    made.query, made.keys[which] = made.query * power, made.keys[which] / power
    return made


def subnormal(rng: Generator, shapes: Shapes) -> Tokens:
    """Keys or values that are subnormal in float32 or float16, with large queries for such keys."""
    made = normal(rng, shapes)
    power = 2.0 ** -int(rng.integers(120, 148)) if rng.random() < 0.6 else 2.0 ** -int(rng.integers(14, 24))
    which = int(rng.integers(len(made.keys)))
    if rng.random() < 0.5:
        made.keys[which] = made.keys[which] * power
        made.query = made.query * min(1 / power, 2.0**120)
    else:
        made.values[which] = made.values[which] * power
    return made


MANNERS: dict[str, Callable[[Generator, Shapes], Tokens]] = {
    "normal": normal,
    "heavy tails": each(heavy_tails),
    "sparse": each(sparse),
    "equal rows": each(equal_rows),
    "colinear rows": each(colinear_rows),
    "zero rows": each(zero_rows),
    "columns far apart": each(columns_far_apart),
    "positive": each(positive),
    "whole numbers": each(whole_numbers),
    "tiny": each(tiny),
    "aligned": aligned,
    "few directions": few_directions,
    "far from zero": far_from_zero,
    "constant values": constant_values,
    "nearly constant values": nearly_constant_values,
    "values far apart": values_far_apart,
    "moved powers": moved_powers,
    "subnormal": subnormal,
}
