"""Tensors as the kernels in C++ take them: which of them, by which number of their type, and where they lie."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from separatrix.native import MOST_SETS, TensorAddress, done, native

TYPES = {torch.float32: 0, torch.float64: 1}
HALF_TYPES = {torch.float16: 2, torch.bfloat16: 3}
"""What exact attention takes beside the others, and computes with in float32."""


def kernels_for(*tensors: Tensor, unless: Callable[[], int] = torch._C._len_torch_dispatch_stack) -> ctypes.CDLL | None:
    """The library, if it may compute with these tensors; None where plain PyTorch has to.

    That is where there is no library, where a tensor is not a plain one of the CPU (of another device, fake, or wrapped
    by a transform of functions), and where a mode sees to all operators of PyTorch, to count their flops for one.

    Args:
        *tensors: The tensors.
        unless: Whether plain PyTorch has to compute because of the modes that are active: by default, if any is.
    """
    library = native().library
    if library is None or unless():
        return None
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    plain = all(type(x) in (Tensor, torch.nn.Parameter) and x.is_cpu and not wrapped(x) for x in tensors)
    return library if plain else None


def exp2(library: ctypes.CDLL, x: Tensor) -> Tensor:
    """Two to each power of a tensor in float32 or float64, as the kernels compute it."""
    x = x.contiguous()
    result = torch.empty_like(x)
    powers, results = (ctypes.c_void_p(each.data_ptr()) for each in (x, result))
    done(library.separatrix_exp2(ctypes.c_int64(TYPES[x.dtype]), ctypes.c_int64(x.numel()), powers, results))
    return result


def put(place: TensorAddress, x: Tensor) -> None:
    """Write down where a tensor (H, L, columns) or (H, L) lies."""
    place.data, (place.head, place.row) = x.data_ptr(), x.stride()[:2]


def addresses(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    """Where contiguous tensors lie, one for each key set."""
    return (ctypes.c_void_p * MOST_SETS)(*(x.data_ptr() for x in tensors))
