"""A lower bound on the time of a computation: the time of its matrix products and exponentials alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

from benchmarks.timing import alternate
from separatrix import doctor
from separatrix.native import native
from separatrix.native_tensors import TYPES


def attention_seconds(volume: int, width: int, *, seconds: float = 0.5) -> float:
    """Seconds for a `volume` of scores in float32 with queries, keys and values of `width` columns.

    A score is `width` multiply-adds, an exponential, and `width` multiply-adds again. Both are timed in registers, by a
    loop of our kernels that loads and stores nothing, on all threads. Without the C++ kernels the result is the sum of
    the best times of mm(out=), exp(out=), mm(out=) on the best block that stays in cache. The measurement takes about
    `seconds`.
    """
    library = native().library
    if library is None:
        return 4e-9 * volume * width / doctor.roofline(width, seconds=seconds).gflops
    multiply_add, exponential = _seconds_each(library, torch.float32, seconds)
    return volume * (2 * width * multiply_add + exponential)


def multiply_add_seconds(count: int, dtype: torch.dtype, *, seconds: float = 0.5) -> float | None:
    """Seconds for a `count` of multiply-adds in registers, on all threads; None without the C++ kernels."""
    library = native().library
    return None if library is None else count * _seconds_each(library, dtype, seconds)[0]


def _seconds_each(library: ctypes.CDLL, dtype: torch.dtype, seconds: float) -> tuple[float, float]:
    """Seconds of a multiply-add and of an exponential, by a loop of the kernels that loads and stores nothing."""
    arithmetic, kind = _arithmetic(library), TYPES[dtype]
    count, tasks = 1 << 20, 8 * torch.get_num_threads()
    lanes = arithmetic(kind, 1, 0, 0)
    best = alternate(
        {
            "multiply-adds": lambda: arithmetic(kind, tasks, count, 0),
            "exponentials": lambda: arithmetic(kind, tasks, 0, count),
        },
        seconds=seconds,
    )
    each = tasks * count * lanes
    return best["multiply-adds"] / each, best["exponentials"] / each


def _arithmetic(library: ctypes.CDLL) -> Callable[..., int]:
    """Run the kernels' loop: a dtype, the number of tasks, and vector multiply-adds and exponentials per task."""
    library.separatrix_arithmetic.argtypes = [ctypes.c_int64] * 4
    return library.separatrix_arithmetic  # type: ignore[no-any-return]


def product_seconds(rows: int, inner: int, columns: int, dtype: torch.dtype, *, seconds: float = 0.2) -> float:
    """The best time of one (rows x inner) @ (inner x columns), mm(out=), repeated on the same memory.

    For a computation in chunks, the roofline is the sum of this time over the matrix products of a chunk, times the
    number of chunks.
    """
    generator = torch.Generator().manual_seed(0)
    left = torch.rand(rows, inner, dtype=dtype, generator=generator)
    right = torch.rand(inner, columns, dtype=dtype, generator=generator)
    out = torch.empty(rows, columns, dtype=dtype)
    return alternate({"mm": lambda: torch.mm(left, right, out=out)}, seconds=seconds)["mm"]
