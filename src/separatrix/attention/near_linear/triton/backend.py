"""The kernels in Triton as a backend of near-linear attention."""

from __future__ import annotations

from torch import Tensor

from separatrix.attention.near_linear.cost import CHUNK_TOKENS
from separatrix.attention.near_linear.expansion import Expansion
from separatrix.attention.near_linear.triton.launch import takes
from separatrix.attention.near_linear.triton.products import add, gradient, sums
from separatrix.attention.near_linear.triton.scan import scan, scan_backward, scan_keys, scan_summing, scan_tokens
from separatrix.attention.near_linear.triton.stream import TritonStream as stream_kernels

__all__ = [
    "NAME",
    "TOKENS_OF_A_LANE",
    "add",
    "gradient",
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
TOKENS_OF_A_LANE = CHUNK_TOKENS


def one_pass(expansion: Expansion, x: Tensor, m: int, values: Tensor) -> None:
    return None
