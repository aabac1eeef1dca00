"""The blocks for which the Triton kernels of near-linear attention are compiled, and their launches.

In float32 on NVIDIA's GPUs sums are computed with tl.dot in tiles, which is a chain of fused multiply-adds there. In
float64, and on AMD's GPUs, tl.dot would use matrix units, whose rounding no vendor documents: so terms are added one
after the other, by multiply-adds of whole blocks.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import torch

from separatrix.attention.dispatch import gpu
from separatrix.attention.dispatch.gpu import padded, vendor
from separatrix.errors import SeparatrixError

KERNELS = ("add_state", "against_state", "coordinate_gradient")
"""The kernels of products, which have blocks for float32 and float64."""
SCANS = ("scan", "scan_back")
STREAMS = ("append_tokens", "ask_states")
"""The kernels of causal attention and of a few tokens of a stream, in float64."""
WIDTHS = (16, 32, 64, 128)
"""The padded numbers of columns."""
WIDEST = 128
"""The largest number of columns that the kernels support."""
MOST_SETS = 15
"""The largest number of states that one query of a stream attends to, as in the kernels in C++."""
ENTRIES = 256
"""Entries of a block of `carry`."""


class Block(NamedTuple):
    """A kernel's block: the numbers of monomials, tokens and warps, and whether it works in tiles."""

    rows: int
    tokens: int
    warps: int
    tiled: bool = False


def block_of(kernel: str, dtype: torch.dtype, columns: int, of: str | None = None) -> Block:
    """The block of a kernel, for a dtype and a padded number of columns, on the GPUs of a vendor.

    >>> block_of("add_state", torch.float32, 16, "cuda"), block_of("scan", torch.float64, 128, "hip")
    (Block(rows=32, tokens=32, warps=4, tiled=True), Block(rows=1, tokens=16, warps=8, tiled=False))
    """
    warps = 4 if columns < 64 else 8
    if kernel in SCANS:
        return Block(1, 32 if columns < 128 else 16, warps)
    if kernel == "ask_states":  # a block of each state is read before they are multiplied
        return Block(1024 // columns, 1, 8)
    if kernel in STREAMS:
        return Block(64 if columns < 128 else 32, 1, warps)
    if dtype == torch.float32 and (of or vendor()) == "cuda":
        return Block(32, 32, warps, True)
    return Block(64, 64 if columns < 128 else 32, warps)


def launch(kernel: str, programs: int, *arguments: Any, warps: int, **constants: Any) -> None:
    """Launch a kernel on `programs` programs, on the device of its first argument; do nothing for 0.

    Raises:
        SeparatrixError: If the instructions of the kernels have not been checked for the architecture of the device.
            All results of these kernels have a certificate.
    """
    device = arguments[0].device
    if (reason := gpu.unchecked(device)) is not None:
        raise SeparatrixError(f"query: no certificate of near-linear attention is known to hold on {device}. {reason}")
    # The kernel is imported when it is first launched, because this imports Triton.
    program = getattr(import_module(f"separatrix.attention.near_linear.triton.programs.{kernel}"), kernel)
    gpu.launch(program, programs, device, *arguments, **constants, num_warps=warps, num_stages=1)


def blocked(kernel: str, dtype: torch.dtype, columns: int) -> tuple[Block, dict[str, Any]]:
    """The block of a matrix-product kernel for a dtype and a number of columns, and the kernel's constants."""
    block = block_of(kernel, dtype, padded(columns))
    constants = {"ROWS": block.rows, "TOKENS": block.tokens, "COLUMNS": padded(columns), "TILED": block.tiled}
    return block, {**constants, "warps": block.warps}
