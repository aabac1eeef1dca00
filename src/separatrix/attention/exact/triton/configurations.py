"""The configurations of the Triton kernels: the block sizes for each kernel, dtype and width.

The blocks of a vendor are the largest in a short list that spill no registers. For half-precision dtypes at order 3,
the blocks of sm_80 and sm_90 were chosen by the cost of a score in the disassembled kernel, including border tiles and
the code around the innermost loop; other NVIDIA architectures use the blocks of one of these two (`LIKE`). `python -m
benchmarks gpu --compile` compiles all blocks, and fails if one may not ship; benchmarks/results/gpu-compiled.md is its
table. There is no autotuning: the first call compiles the configuration in this file.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from separatrix.attention.call import Call
from separatrix.attention.dispatch.gpu import padded, vendor

KERNELS = ("attend", "query_gradient", "inner_gradient", "prefix_gradient", "query_prefix_gradient")
FUSED = "query_prefix_gradient"
"""The kernel that computes the results of `query_gradient` and `prefix_gradient`; it has the latter's blocks."""
FUSED_ON = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "gfx942")
"""The architectures for which the fused kernel has been compiled, and on which it is used."""
FUSED_BLOCKS = 4
"""The fused kernel is used if the window of the prefix set is at most this many times the length of a query block. The
partial sums of a block have window + block - 1 rows, so at most five for each query."""
LIKE = {"sm_86": "sm_80", "sm_89": "sm_80", "sm_120": "sm_80", "sm_100": "sm_90", "sm_103": "sm_90"}
"""Architectures that have the blocks of another."""
ONCE_ON = ("sm_80", "sm_86", "sm_89", "sm_120")
"""Architectures on which only one warp computes `inner_gradient`'s factors of matrix products, because matrix units
take both factors from registers of a warp."""
WIDTHS = (16, 32, 64, 128)
"""The widths that all architectures have. A width is the larger of the padded dimensions of keys and of values."""
WIDE = 256
"""A further width, which the architectures of `SHIPPED_WIDE` have at order 3."""


ORDERS = (3, 4)
"""The orders with configurations; 4 stands for all orders from 4 on."""
TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""The dtypes that have configurations; float64 has them on NVIDIA's GPUs only."""
LARGEST = 128
"""The largest number of queries in a block."""
BOUNDS, ORIGIN = 8, 1 << 24
"""The number of bounds that `check_range` writes, and the offset that is added to each of them."""


AROUND = ("prepare", "copy_sets", "largest", "check_range", "incoming_rows", "merge_splits", "add_partials")
"""The kernels that run before or after the main kernels, with the same blocks on all GPUs."""
WARPS_AROUND = 4
ENTRIES_AROUND = 1024
"""The entries of a block of `prepare` and `copy_sets`."""


def rows_around(columns: int) -> int:
    """The rows of a block of `largest` and `incoming_rows`, for a padded number of columns.

    >>> rows_around(16), rows_around(128)
    (128, 16)
    """
    return 2048 // columns


class Configuration(NamedTuple):
    """A kernel's block: the numbers of queries, inner keys, warps and pipeline stages."""

    queries: int
    keys: int
    warps: int
    stages: int


def width_of(call: Call) -> int:
    """The width by which the configuration of a call is chosen."""
    return max(padded(call.query.shape[2]), padded(call.values[0].shape[2]))


def configuration(
    kernel: str,
    dtype: torch.dtype,
    width: int,
    *,
    of: str | None = None,
    precision: str = "ieee",
    order: int = 3,
    packed: bool = False,
) -> Configuration:
    """The configuration that ships for a kernel, for a dtype and a padded width of tensors, on some GPUs.

    Args:
        kernel: One of `KERNELS`.
        dtype: The dtype of the tensors.
        width: One of `WIDTHS`, or `WIDE`.
        of: The architecture or the vendor, None for the vendor of this build of PyTorch.
        precision: How products of float32 are computed, "ieee" or "tf32".
        order: The order of the call, at least 3.
        packed: Whether tiles have the rows of all query heads that share keys, for which some architectures have other
            blocks.

    Example:
        >>> configuration("attend", torch.bfloat16, 64, of="cuda").queries
        128
    """
    what = ("prefix_gradient" if kernel == FUSED else kernel, kind_of(dtype, precision), min(order, ORDERS[-1]))
    of = of or vendor()
    if width == WIDE:
        return SHIPPED_WIDE[(of, *what[:2])]
    own = LIKE.get(of, of)
    blocks = SHIPPED_PACKED.get((own, *what)) if packed else None
    blocks = blocks or SHIPPED.get((own, *what)) or SHIPPED["hip" if of.startswith(("hip", "gfx")) else "cuda", *what]
    return blocks[WIDTHS.index(width)]


def flags_of(kernel: str, dtype: torch.dtype, of: str) -> dict[str, bool]:
    """Compile-time flags that a kernel has on an architecture or for a vendor, in addition to those of the call.

    >>> flags_of("inner_gradient", torch.bfloat16, "sm_80"), flags_of("attend", torch.bfloat16, "sm_80")
    ({'ONCE': True}, {})
    """
    return {"ONCE": of in ONCE_ON and dtype.itemsize == 2} if kernel == "inner_gradient" else {}


def peels(masked: bool, dtype: torch.dtype, precision: str) -> bool:
    """Whether blocks without masked scores use loops without comparisons.

    Only kernels with matrix units use such loops: compared with the multiply-adds of float32 and float64, comparisons
    are cheap.

    >>> peels(False, torch.bfloat16, "ieee"), peels(False, torch.float32, "ieee"), peels(True, torch.bfloat16, "ieee")
    (True, False, False)
    """
    return not masked and (dtype.itemsize == 2 or precision == "tf32")


def kernels_of(architecture: str) -> tuple[str, ...]:
    """The kernels that run on an architecture.

    >>> len(kernels_of("sm_90")), len(kernels_of("sm_120"))
    (5, 4)
    """
    return tuple(kernel for kernel in KERNELS if kernel != FUSED or architecture in FUSED_ON)


def ships_width(dtype: torch.dtype, order: int, width: int, of: str, *, masked: bool) -> bool:
    """Whether a padded width has configurations, given that the dtype, the order and the vendor have some.

    >>> [ships_width(torch.bfloat16, order, 256, "sm_90", masked=False) for order in (3, 4)]
    [True, False]
    """
    if width <= WIDTHS[-1]:
        return True
    fits = not masked or dtype.itemsize > 2 or of in MASKED_WIDE
    return fits and width == WIDE and order == 3 and (of, KERNELS[0], kind_of(dtype, "ieee")) in SHIPPED_WIDE


def ships(dtype: torch.dtype, order: int, of: str | None = None) -> bool:
    """Whether there are configurations for a dtype and an order, on the GPUs of a vendor.

    >>> ships(torch.float64, 3, "cuda"), ships(torch.float64, 3, "hip"), ships(torch.float16, 7, "hip")
    (True, False, True)
    """
    return (of or vendor(), KERNELS[0], kind_of(dtype, "ieee"), min(order, ORDERS[-1])) in SHIPPED


def kind_of(dtype: torch.dtype, precision: str) -> str:
    """The name under which the configuration of a dtype is listed; both half types share one.

    >>> kind_of(torch.float16, "ieee"), kind_of(torch.float32, "tf32")
    ('16 bits', 'tf32')
    """
    return precision if precision == "tf32" else f"{8 * dtype.itemsize} bits"


def _each(*blocks: tuple[int, int, int, int]) -> tuple[Configuration, ...]:
    return tuple(Configuration(*block) for block in blocks)


SHIPPED_WIDE = {
    ("sm_90", "attend", "16 bits"): Configuration(32, 64, 4, 1),
    ("sm_90", "query_gradient", "16 bits"): Configuration(64, 64, 8, 1),
    ("sm_90", "inner_gradient", "16 bits"): Configuration(16, 64, 8, 1),
    ("sm_90", "prefix_gradient", "16 bits"): Configuration(32, 32, 8, 1),
    ("sm_80", "attend", "16 bits"): Configuration(32, 64, 4, 1),
    ("sm_80", "query_gradient", "16 bits"): Configuration(64, 64, 8, 1),
    ("sm_80", "inner_gradient", "16 bits"): Configuration(32, 32, 8, 1),
    ("sm_80", "prefix_gradient", "16 bits"): Configuration(64, 64, 8, 1),
    **{
        (of, kernel, "32 bits"): Configuration(16, 16, 8, 1)
        for of in ("sm_80", "sm_90")
        for kernel in KERNELS
        if kernel != FUSED
    },
}
"""Blocks of `WIDE` columns, at order 3, for architectures on which they fit into registers and shared memory."""
MASKED_WIDE = ("sm_80",)
"""Architectures on which blocks of `WIDE` columns fit in half types with masks too; on sm_90 `inner_gradient` would
spill in its loop.
"""
SHIPPED_PACKED = {("sm_90", "attend", "16 bits", 3): _each(*[(64, 128, 4, 1)] * 4)}
"""Blocks of tiles that are packed with query heads, where they differ: 64 rows, so that 64 and 128 query heads that
share keys fill whole tiles, and long blocks of keys, because few tiles have masked scores."""
SHIPPED = {
    ("sm_90", "attend", "16 bits", 3): _each((64, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 2), (128, 128, 8, 1)),
    ("sm_90", "query_gradient", "16 bits", 3): _each((64, 64, 4, 2), (128, 64, 8, 2), (128, 64, 8, 2), (64, 64, 4, 1)),
    ("sm_90", "inner_gradient", "16 bits", 3): _each((32, 64, 4, 1), (32, 64, 4, 1), (32, 64, 4, 1), (32, 128, 8, 1)),
    ("sm_90", "prefix_gradient", "16 bits", 3): _each((128, 64, 8, 2), (128, 32, 8, 2), (64, 64, 4, 1), (64, 32, 4, 1)),
    ("sm_80", "attend", "16 bits", 3): _each((64, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 2), (128, 64, 8, 2)),
    ("sm_80", "query_gradient", "16 bits", 3): _each((64, 64, 4, 2), (128, 64, 8, 2), (128, 64, 8, 2), (128, 32, 8, 2)),
    ("sm_80", "inner_gradient", "16 bits", 3): _each((32, 64, 4, 1), (32, 64, 4, 1), (32, 64, 4, 1), (16, 128, 8, 1)),
    ("sm_80", "prefix_gradient", "16 bits", 3): _each((128, 64, 8, 2), (128, 32, 8, 2), (64, 32, 4, 2), (64, 32, 4, 1)),
    ("cuda", "attend", "16 bits", 3): _each((128, 64, 8, 2), (128, 64, 8, 2), (128, 32, 8, 2), (32, 32, 8, 2)),
    ("cuda", "query_gradient", "16 bits", 3): _each((64, 64, 4, 2), (128, 64, 8, 2), (64, 32, 8, 2), (32, 32, 8, 2)),
    ("cuda", "inner_gradient", "16 bits", 3): _each((32, 64, 4, 1), (16, 64, 4, 1), (16, 32, 4, 1), (32, 16, 8, 1)),
    ("cuda", "prefix_gradient", "16 bits", 3): _each((128, 64, 8, 2), (128, 32, 8, 2), (32, 64, 4, 2), (32, 32, 8, 2)),
    ("cuda", "attend", "32 bits", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (64, 32, 8, 1), (32, 16, 8, 1)),
    ("cuda", "query_gradient", "32 bits", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 4, 1), (32, 32, 8, 1)),
    ("cuda", "inner_gradient", "32 bits", 3): _each((16, 64, 8, 1), (16, 64, 8, 1), (16, 64, 8, 1), (16, 32, 8, 1)),
    ("cuda", "prefix_gradient", "32 bits", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (32, 16, 8, 1)),
    ("cuda", "attend", "tf32", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (32, 16, 8, 1)),
    ("cuda", "query_gradient", "tf32", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (16, 32, 8, 1)),
    ("cuda", "inner_gradient", "tf32", 3): _each((16, 64, 8, 1), (16, 64, 8, 1), (16, 32, 8, 1), (16, 16, 8, 1)),
    ("cuda", "prefix_gradient", "tf32", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (32, 16, 8, 1)),
    ("hip", "attend", "16 bits", 3): _each((128, 64, 8, 1), (128, 64, 8, 1), (128, 64, 8, 1), (64, 64, 4, 1)),
    ("hip", "query_gradient", "16 bits", 3): _each((128, 64, 8, 1), (128, 64, 8, 1), (64, 64, 4, 1), (64, 64, 4, 1)),
    ("hip", "inner_gradient", "16 bits", 3): _each((32, 64, 4, 1), (32, 64, 4, 1), (32, 64, 4, 1), (16, 64, 4, 1)),
    ("hip", "prefix_gradient", "16 bits", 3): _each((128, 64, 8, 1), (64, 64, 4, 1), (64, 64, 4, 1), (64, 32, 4, 1)),
    ("hip", "attend", "32 bits", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 4, 1)),
    ("hip", "query_gradient", "32 bits", 3): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 4, 1), (32, 32, 4, 1)),
    ("hip", "inner_gradient", "32 bits", 3): _each((16, 64, 8, 1), (16, 64, 8, 1), (16, 64, 8, 1), (16, 32, 4, 1)),
    ("hip", "prefix_gradient", "32 bits", 3): _each((64, 32, 8, 1), (32, 32, 4, 1), (32, 32, 4, 1), (32, 16, 4, 1)),
    ("cuda", "attend", "64 bits", 3): _each((16, 8, 8, 1), (16, 4, 8, 1), (16, 2, 8, 1), (16, 1, 8, 1)),
    ("cuda", "query_gradient", "64 bits", 3): _each((16, 4, 8, 1), (16, 2, 8, 1), (16, 1, 8, 1), (8, 1, 8, 1)),
    ("cuda", "inner_gradient", "64 bits", 3): _each((8, 16, 8, 1), (4, 16, 8, 1), (2, 16, 8, 1), (1, 16, 8, 1)),
    ("cuda", "prefix_gradient", "64 bits", 3): _each((16, 4, 8, 1), (16, 2, 8, 1), (16, 1, 8, 1), (8, 1, 8, 1)),
    ("cuda", "attend", "16 bits", 4): _each((128, 64, 8, 2), (128, 64, 8, 2), (128, 32, 8, 2), (32, 32, 8, 2)),
    ("cuda", "query_gradient", "16 bits", 4): _each((64, 64, 4, 2), (128, 64, 8, 2), (64, 32, 8, 2), (32, 32, 8, 2)),
    ("cuda", "inner_gradient", "16 bits", 4): _each((32, 64, 4, 1), (16, 64, 4, 1), (16, 32, 4, 1), (16, 32, 8, 1)),
    ("cuda", "prefix_gradient", "16 bits", 4): _each((128, 32, 8, 2), (64, 16, 8, 1), (32, 32, 8, 1), (16, 32, 8, 1)),
    ("cuda", "attend", "32 bits", 4): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (16, 16, 8, 1)),
    ("cuda", "query_gradient", "32 bits", 4): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (16, 16, 8, 1)),
    ("cuda", "inner_gradient", "32 bits", 4): _each((16, 64, 8, 1), (16, 64, 8, 1), (16, 64, 8, 1), (16, 32, 8, 1)),
    ("cuda", "prefix_gradient", "32 bits", 4): _each((64, 32, 8, 1), (32, 32, 8, 1), (16, 32, 8, 1), (16, 16, 8, 1)),
    ("cuda", "attend", "tf32", 4): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (32, 16, 8, 1)),
    ("cuda", "query_gradient", "tf32", 4): _each((64, 32, 8, 1), (64, 32, 8, 1), (16, 32, 4, 1), (16, 32, 8, 1)),
    ("cuda", "inner_gradient", "tf32", 4): _each((16, 64, 8, 1), (16, 64, 8, 1), (16, 32, 8, 1), (16, 16, 8, 1)),
    ("cuda", "prefix_gradient", "tf32", 4): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 8, 1), (16, 16, 8, 1)),
    ("cuda", "attend", "64 bits", 4): _each((16, 8, 8, 1), (16, 4, 8, 1), (16, 2, 8, 1), (16, 1, 8, 1)),
    ("cuda", "query_gradient", "64 bits", 4): _each((16, 4, 8, 1), (16, 2, 8, 1), (16, 1, 8, 1), (8, 1, 8, 1)),
    ("cuda", "inner_gradient", "64 bits", 4): _each((8, 16, 8, 1), (4, 16, 8, 1), (2, 16, 8, 1), (1, 16, 8, 1)),
    ("cuda", "prefix_gradient", "64 bits", 4): _each((16, 4, 8, 1), (16, 2, 8, 1), (16, 1, 8, 1), (8, 1, 8, 1)),
    ("hip", "attend", "16 bits", 4): _each((128, 64, 8, 1), (64, 64, 8, 1), (64, 64, 8, 1), (32, 64, 4, 1)),
    ("hip", "query_gradient", "16 bits", 4): _each((64, 64, 8, 1), (64, 64, 8, 1), (64, 64, 4, 1), (32, 64, 4, 1)),
    ("hip", "inner_gradient", "16 bits", 4): _each((32, 64, 4, 1), (32, 64, 4, 1), (16, 64, 4, 1), (16, 32, 4, 1)),
    ("hip", "prefix_gradient", "16 bits", 4): _each((64, 64, 8, 1), (64, 64, 4, 1), (64, 32, 4, 1), (32, 32, 4, 1)),
    ("hip", "attend", "32 bits", 4): _each((64, 32, 8, 1), (64, 32, 8, 1), (32, 32, 4, 1), (32, 16, 4, 1)),
    ("hip", "query_gradient", "32 bits", 4): _each((64, 32, 8, 1), (32, 32, 4, 1), (32, 32, 4, 1), (16, 32, 4, 1)),
    ("hip", "inner_gradient", "32 bits", 4): _each((16, 64, 8, 1), (16, 32, 4, 1), (16, 32, 4, 1), (16, 16, 4, 1)),
    ("hip", "prefix_gradient", "32 bits", 4): _each((64, 32, 8, 1), (32, 32, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1)),
}
