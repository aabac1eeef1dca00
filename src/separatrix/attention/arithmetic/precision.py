"""Detects PyTorch settings and processor modes that change arithmetic, before a certificate is issued.

A certificate counts roundings, so it needs IEEE 754 arithmetic. Three things may change it silently: autocast, float32
products of reduced precision, and threads that flush subnormal numbers to zero or do not round to nearest.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from separatrix.errors import SeparatrixError


def no_autocast(device_type: str) -> AbstractContextManager[object]:
    """Disable `torch.autocast` in the block, so that products are computed in the dtypes of their factors."""
    if torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def float32_products_are_float32(device_type: str = "cpu") -> bool:
    """Whether float32 matrix products on a device keep all digits of float32, as error bounds for float32 require.

    The result is False if a PyTorch setting allows reduced precision on that device
    (`torch.set_float32_matmul_precision`, `torch.backends.fp32_precision`, `torch.backends.mkldnn.fp32_precision`,
    `torch.backends.mkldnn.matmul`, `torch.backends.cuda.matmul`), whether or not this machine makes use of it, or if a
    product that is exact in float32 is computed inexactly. Products in float64 do not depend on these settings.

    >>> float32_products_are_float32()
    True
    """
    return _settings(device_type) <= {"none", "ieee"} and _keeps_digits(device_type)


def _settings(device_type: str) -> set[str]:
    """PyTorch's precision settings for float32 matrix products on a type of device; all of them for another type."""
    settings = {
        "cpu": torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        "cuda": torch.backends.cuda.matmul.fp32_precision,
    }
    return {settings[device_type]} if device_type in settings else set(settings.values())


@lru_cache(maxsize=8)
def _keeps_digits(device_type: str) -> bool:
    """Whether products with 2^11 + 1, which takes 12 bits, and their sums are exact, as they are in float32.

    TF32 has 11 significant bits and bfloat16 eight. The matrices are too large for the kernels for tiny products.
    """
    # Autocast and modes such as a flop counter are disabled: they concern the user's call, and this check is cached.
    with _disable_current_modes(), no_autocast(device_type):
        return _products_are_exact(device_type)


def _products_are_exact(device_type: str) -> bool:
    factor, ones = (torch.full((2, 32, 32), size, dtype=torch.float32, device=device_type) for size in (2049.0, 1.0))
    products = [factor[0] @ ones[0], ones[0] @ factor[0], *(factor @ ones), *(ones @ factor)]
    return all(bool((x == 32 * 2049.0).all()) for x in products)


def require_ieee_arithmetic() -> None:
    """Raise a `SeparatrixError` unless all of PyTorch's threads keep subnormal numbers and round to nearest.

    The modes belong to a thread, and a thread that PyTorch starts inherits the modes of the thread that starts it:
    checking the calling thread is not enough. `layer_norm` assigns one row to each thread, and scales the pair (-5, 5)
    by 1.5, in units of the smallest positive number of float32. With rounding to nearest the result is (-8, 8); a
    thread with another rounding mode returns 7 for one of them, and a thread that flushes to zero returns 0.
    """
    if torch._C._len_torch_dispatch_stack():
        # Dispatch modes, for example of fake tensors, apply to the user's call and not to this check.
        with _disable_current_modes():
            return require_ieee_arithmetic()
    rows, weight, expected = _rows(torch.get_num_threads())
    scaled = torch.layer_norm(rows, (2,), weight, None, 1.0).view(torch.int32)
    if torch.equal(scaled, expected):
        return
    wrong = (scaled != expected).any(1)
    where = "in this thread" if bool(wrong[0]) else "in threads that PyTorch has started, though not in this one"
    if bool((scaled & 0x7FFFFFFF == 0).any()):
        raise SeparatrixError(
            f"torch.set_flush_denormal: numbers below {torch.finfo(torch.float32).tiny:.3g} are flushed to zero "
            f"{where}, so no error bound holds. Call torch.set_flush_denormal(False) before the first computation of "
            "the process: threads keep the mode in which they were started."
        )
    raise SeparatrixError(
        f"rounding mode: numbers are not rounded to the nearest {where}, so no error bound holds. Restore "
        "the rounding mode (fesetround(FE_TONEAREST) of the C library) before the first computation of the process."
    )


@lru_cache(maxsize=8)
def _rows(threads: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each thread the input pair, the weights, and the expected output pair, as bits."""
    # Subnormal numbers are created from integers, whose bits cannot be flushed to zero.
    sign = -(1 << 31)
    given, expected = (
        torch.tensor([sign + units, units], dtype=torch.int32, device="cpu").repeat(threads, 1) for units in (5, 8)
    )
    return given.view(torch.float32), torch.full((2,), 1.5, dtype=torch.float32, device="cpu"), expected
