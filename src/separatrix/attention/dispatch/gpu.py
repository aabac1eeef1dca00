"""Where the kernels in Triton run: on which devices, of which vendor, and whether Triton is installed."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch

DEVICES = {"cuda"}
"""The types of devices that the kernels run on; PyTorch calls AMD's by the same name. Tests of the interpreter have the
CPU in its place, which nothing else does."""
REGISTERS = {"cuda": 255, "hip": None}
"""How many registers a thread may have: said to NVIDIA's assembler, which else spills some to run more threads."""


@cache
def installed() -> bool:
    """Whether Triton is installed; it comes with the builds of PyTorch for CUDA and ROCm."""
    return importlib.util.find_spec("triton") is not None


def vendor() -> str:
    """Whose GPUs this build of PyTorch is for: "cuda" or "hip"."""
    return "cuda" if torch.version.hip is None else "hip"


def padded(columns: int) -> int:
    """The width that a number of columns is padded to: a power of two, 16 at the least, which matrix units ask for.

    >>> [padded(columns) for columns in (1, 16, 17, 128)]
    [16, 16, 32, 128]
    """
    return max(16, 1 << (columns - 1).bit_length())
