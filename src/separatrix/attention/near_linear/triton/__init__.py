"""Near-linear attention by kernels in Triton, which make monomials in registers: the backend for GPUs.

- `products`: states, the sums of the queries and their derivatives, in float32 and float64.
- `scan`: causal attention over a chunk of tokens, forward and backward, in float64.
- `stream`: a few tokens of a stream, appended or attended.
- `tables`: an index set as the kernels take it.
- `launch`: the blocks that the kernels are compiled for, and their launches.
- `programs`: the kernels, which are compiled when they are first launched.

All of them are tested in Triton's interpreter and compiled for sm_80, sm_90 and gfx942; they are not yet timed on
hardware.
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.attention.near_linear.expansion import Expansion
from separatrix.attention.near_linear.triton.launch import takes
from separatrix.attention.near_linear.triton.products import add, gradient, sums
from separatrix.attention.near_linear.triton.scan import scan, scan_backward, scan_keys, scan_summing, scan_tokens
from separatrix.attention.near_linear.triton.stream import TritonStream as stream_kernels

__all__ = [
    "NAME",
    "add",
    "gradient",
    "lane_tokens",
    "one_pass",
    "scan",
    "scan_backward",
    "scan_keys",
    "scan_summing",
    "scan_tokens",
    "stream_kernels",
    "sums",
    "takes",
]
NAME = "triton"


def lane_tokens(chunk: int, dtype: torch.dtype) -> int:
    return chunk


def one_pass(expansion: Expansion, x: Tensor, m: int, values: Tensor) -> None:
    return None
