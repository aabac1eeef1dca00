"""Where the kernels in Triton run: on which devices, of which vendor, and whether Triton is installed."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch
from torch import Tensor

DEVICES = {"cuda"}
"""The types of devices that the kernels run on; PyTorch calls AMD's by the same name. Tests of the interpreter have the
CPU in its place, which nothing else does."""
REGISTERS = {"cuda": 255, "hip": None}
"""How many registers a thread may have: said to NVIDIA's assembler, which else spills some to run more threads."""


OLDEST_TRITON = (3, 6)
"""The oldest version of Triton that the kernels have been tested with; PyTorch 2.10 brings it."""


@cache
def installed() -> bool:
    """Whether Triton is installed, in a version that the kernels are tested with.

    It comes with the builds of PyTorch for CUDA and ROCm.
    """
    if importlib.util.find_spec("triton") is None:
        return False
    version: str = importlib.import_module("triton").__version__
    return tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_TRITON


def computes(*tensors: Tensor) -> bool:
    """Whether kernels in Triton may compute with these tensors; where they may not, plain PyTorch has to.

    They may not where Triton is not installed, where a tensor is not a plain one of a GPU (of another device, fake, or
    wrapped by a transform of functions), and where a mode sees to all operators of PyTorch, for one to count flops.
    """
    if not all(x.device.type in DEVICES for x in tensors) or torch._C._len_torch_dispatch_stack() or not installed():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return all(type(x) in (Tensor, torch.nn.Parameter) and not wrapped(x) for x in tensors)


def vendor() -> str:
    """Whose GPUs this build of PyTorch is for: "cuda" or "hip"."""
    return "cuda" if torch.version.hip is None else "hip"


def padded(columns: int) -> int:
    """The width that a number of columns is padded to: a power of two, 16 at the least, which matrix units ask for.

    >>> [padded(columns) for columns in (1, 16, 17, 128)]
    [16, 16, 32, 128]
    """
    return max(16, 1 << (columns - 1).bit_length())
