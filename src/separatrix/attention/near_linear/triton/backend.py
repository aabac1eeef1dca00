"""The kernels in Triton as a backend of near-linear attention."""

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
