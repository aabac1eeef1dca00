"""What the machine could do if the matrix products and exponentials of a computation were all it had to do."""

from __future__ import annotations

import torch

from benchmarks.timing import alternate
from separatrix import doctor


def attention_seconds(volume: int, width: int, *, seconds: float = 0.5) -> float:
    """Seconds for a `volume` of scores in float32 with queries, keys and values of `width` columns.

    The summed best times of mm(out=), exp(out=), mm(out=) on the best block that stays in cache, scaled to the
    volume; measuring takes about `seconds`.
    """
    return 4e-9 * volume * width / doctor.roofline(width, seconds=seconds).gflops


def product_seconds(rows: int, inner: int, columns: int, dtype: torch.dtype, *, seconds: float = 0.2) -> float:
    """The best time of one (rows x inner) @ (inner x columns), mm(out=), on the same memory over and over.

    For a computation in chunks the roofline of its matrix products is the sum of this over the products of a chunk,
    times the number of chunks.
    """
    generator = torch.Generator().manual_seed(0)
    left = torch.rand(rows, inner, dtype=dtype, generator=generator)
    right = torch.rand(inner, columns, dtype=dtype, generator=generator)
    out = torch.empty(rows, columns, dtype=dtype)
    return alternate({"mm": lambda: torch.mm(left, right, out=out)}, seconds=seconds)["mm"]
