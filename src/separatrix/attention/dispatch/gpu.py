"""The kernels in Triton: the devices, vendors and architectures that they support, and how they are launched."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import torch
from torch import Tensor

from separatrix.errors import SeparatrixError

DEVICES = {"cuda"}
"""The device types that the kernels run on; PyTorch calls AMD's GPUs "cuda" too. Only tests that use Triton's
interpreter replace it by "cpu"."""
OPTIONS: dict[str, dict[str, Any]] = {
    "cuda": {"enable_fp_fusion": True, "maxnreg": 255},
    "hip": {"enable_fp_fusion": True},
}
"""Compiler options of every kernel, by vendor. Products and sums may be fused into multiply-adds, which Triton 3.10 no
longer does by default. NVIDIA's assembler would otherwise spill registers to run more threads."""
ARCHITECTURES = {
    "cuda": ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"),
    "hip": ("gfx90a", "gfx942"),
}
"""The architectures for which all kernels have been compiled and their float32 and float64 instructions checked:
benchmarks/results/gpu-compiled.json. Elsewhere a compiler might use instructions whose rounding is not documented."""


OLDEST_TRITON = (3, 6)
"""The oldest version of Triton that the kernels have been tested with, the one that PyTorch 2.10 depends on."""


@cache
def installed() -> bool:
    """Whether Triton is installed, in a version that the kernels are tested with.

    Triton comes with the builds of PyTorch for CUDA and ROCm.
    """
    if importlib.util.find_spec("triton") is None:
        return False
    version: str = importlib.import_module("triton").__version__
    return tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_TRITON


def computes(*tensors: Tensor) -> bool:
    """Whether the kernels in Triton support these tensors; otherwise plain PyTorch computes the result.

    The kernels do not support them if Triton is not installed, if a tensor is on another device, fake, or wrapped by a
    `torch.func` transform, or if a TorchDispatchMode is active, for example one that counts flops.
    """
    if not all(x.device.type in DEVICES for x in tensors) or torch._C._len_torch_dispatch_stack() or not installed():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return all(type(x) in (Tensor, torch.nn.Parameter) and not wrapped(x) for x in tensors)


def vendor() -> str:
    """The GPU platform of this build of PyTorch: "cuda" (NVIDIA) or "hip" (AMD)."""
    return "cuda" if torch.version.hip is None else "hip"


def architecture(device: torch.device) -> str:
    """The compiler's name of a GPU's architecture: "sm_90" or "gfx942"."""
    if vendor() == "hip":
        name: str = torch.cuda.get_device_properties(device).gcnArchName
        return name.split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def blocks_of(device: torch.device) -> str:
    """The architecture whose block sizes are used on a device; the platform's defaults if this machine has no GPU."""
    return architecture(device) if device.type == "cuda" and torch.cuda.is_available() else vendor()


@cache
def unchecked(device: torch.device) -> str | None:
    """Why the error bounds are not proved on a device: its architecture is not in `ARCHITECTURES`. None if they are
    proved.

    Fake tensors of a GPU that this machine does not have are accepted: nothing is computed with them.
    """
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    name, known = architecture(device), ARCHITECTURES[vendor()]
    if name in known:
        return None
    return (
        f"The compiled kernels have been checked for {', '.join(known)}, but the architecture of this GPU is {name}. "
        "Move the tensors to the CPU, or to one of these GPUs."
    )


def most_programs(warps: int = 8) -> int:
    """The largest number of programs of a launch, if a program has `warps` warps; no kernel here has more than 8.

    Triton multiplies the coordinates of a grid as 32-bit integers, and launches nothing if the product overflows. HIP
    launches fewer than 2^32 threads.
    """
    return (1 << 31) - 1 if vendor() == "cuda" else ((1 << 32) - 1) // (64 * warps)


def launch(
    program: Any, programs: int, device: torch.device, *arguments: Any, sequences: int = 1, **options: Any
) -> None:
    """Launch `program` on `programs` programs for each of some sequences, on the device of its tensors.

    Do nothing for 0 programs. Triton launches on the current device, not on that of its tensors.

    Raises:
        SeparatrixError: If there are more than `most_programs`.
    """
    most = most_programs(options["num_warps"])
    if programs * sequences > most:
        raise SeparatrixError(
            f"query: one launch on this GPU has at most {most} programs, but this call needs {programs * sequences}. "
            "Split the batch, the heads or the sequence."
        )
    if programs:
        with torch.cuda.device(device if device.type == "cuda" else -1):
            program[(programs, sequences)](*arguments, **options, **OPTIONS[vendor()])


def padded(columns: int) -> int:
    """The width that a number of columns is padded to: the next power of two, at least 16, as matrix units require.

    >>> [padded(columns) for columns in (1, 16, 17, 128)]
    [16, 16, 32, 128]
    """
    return max(16, 1 << (columns - 1).bit_length())
