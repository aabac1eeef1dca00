"""Calls the kernels in C++ with tensors: which tensors they support, codes of dtypes, addresses, and error codes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from separatrix.native import MOST_SETS, TensorAddress, TokensCall, native

TYPES = {torch.float32: 0, torch.float64: 1}
HALF_TYPES = {torch.float16: 2, torch.bfloat16: 3}
"""Further dtypes that exact attention supports, by computing in float32."""

_PLAIN = (Tensor, torch.nn.Parameter)
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def operators_are_watched() -> bool:
    """Whether a dispatch mode of PyTorch is active that must see PyTorch's own operators, such as a flop counter.

    A mode whose class has ``allows_kernels = True`` need not see them.
    """
    if not torch._C._len_torch_dispatch_stack():
        return False
    return not all(getattr(mode, "allows_kernels", False) for mode in _get_current_dispatch_mode_stack())


def kernels_for(
    *tensors: Tensor, unless: Callable[[], int] = torch._C._len_torch_dispatch_stack
) -> ctypes.PyDLL | None:
    """The library if it can compute with these tensors; None if plain PyTorch must be used.

    Plain PyTorch is used if there is no library, if a tensor is on another device, fake, or wrapped by a `torch.func`
    transform, or if a TorchDispatchMode is active, for example one that counts flops.

    Args:
        *tensors: The tensors.
        unless: Whether plain PyTorch must be used because of active modes: by default, if any is active.
    """
    library = native().library
    if library is None or unless():
        return None
    for x in tensors:
        if type(x) not in _PLAIN or not x.is_cpu or _is_wrapped(x):
            return None
    return library


def function(name: str, arguments: int) -> Callable[..., int]:
    """A function of the library that takes this number of addresses and returns an error code, or 0."""
    library = native().library
    assert library is not None
    function = getattr(library, name)
    function.argtypes = [ctypes.c_void_p] * arguments
    return function  # type: ignore[no-any-return]


def done(code: int) -> None:
    """Raise the exception for an error code of a kernel."""
    if code == 1:
        raise MemoryError("The attention kernels could not allocate memory for their copies of keys and values.")
    assert code == 0, code


def exp2(library: ctypes.PyDLL, x: Tensor) -> Tensor:
    """Two to the power of each entry of a tensor in float32 or float64, as the kernels compute it."""
    x = x.contiguous()
    result = torch.empty_like(x)
    powers, results = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, result))
    done(library.separatrix_exp2(ctypes.c_int64(TYPES[x.dtype]), ctypes.c_int64(x.numel()), powers, results))
    return result


def put(place: TensorAddress, x: Tensor) -> None:
    """Describe the memory layout of a tensor (H, L, columns) or (H, L)."""
    place.data, (place.head, place.row) = x.data_ptr(), x.stride()[:2]


def tokens_call(x: Tensor, mask: Tensor | None) -> TokensCall:
    """The description of tokens (H, L, columns) and their mask (H, L) for the kernels that read entries."""
    call = TokensCall(TYPES[x.dtype], *x.shape)
    put(call.x, x)
    if mask is not None:
        put(call.mask, mask)
    return call


def addresses(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    """The addresses of contiguous tensors, one for each key set."""
    return (ctypes.c_void_p * MOST_SETS)(*(x.data_ptr() for x in tensors))
