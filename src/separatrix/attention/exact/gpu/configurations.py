"""The configurations of the kernels in Triton that ship: how large a block is, for each kernel, type and width.

They are the largest of a short list that spill no register on any target, found by `python -m benchmarks gpu --compile`,
whose table is in benchmarks/results/gpu. Nothing is searched at run time: the first call compiles what is written here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from separatrix.attention.call import Call

KERNELS = ("attend", "query_gradient", "inner_gradient", "prefix_gradient")
WIDTHS = (16, 32, 64, 128)
"""The padded numbers of columns of keys and values, the larger of which counts."""
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Configuration(NamedTuple):
    """A kernel's block: how many queries, how many inner keys, and how many warps and stages of a pipeline it has."""

    queries: int
    keys: int
    warps: int
    stages: int


def padded(columns: int) -> int:
    """The width that a number of columns is padded to: a power of two, 16 at the least, which matrix units ask for."""
    return max(16, 1 << (columns - 1).bit_length())


def width_of(call: Call) -> int:
    """The width by which the configuration of a call is chosen."""
    return max(padded(call.query.shape[2]), padded(call.values[0].shape[2]))


def configuration(kernel: str, dtype: torch.dtype, width: int) -> Configuration:
    """The configuration that ships for a kernel, for tensors of a type and a padded width.

    >>> configuration("attend", torch.bfloat16, 64).queries
    64
    """
    return SHIPPED[kernel, dtype.itemsize, width]


SHIPPED = {
    (kernel, size, width): Configuration(16 if size == 8 else 64, 16, 4, 1)
    for kernel in KERNELS
    for size in (2, 4, 8)
    for width in WIDTHS
}
