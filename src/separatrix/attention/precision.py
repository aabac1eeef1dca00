"""What PyTorch's settings may do to float32 products behind our back: autocast, and matrix products of fewer digits."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def no_autocast(device_type: str) -> AbstractContextManager[object]:
    """Products in the types of their factors, also inside `torch.autocast`."""
    if torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def float32_products_are_float32() -> bool:
    """Whether `torch.set_float32_matmul_precision` is at "highest": an error bound for float32 needs it.

    >>> float32_products_are_float32()
    True
    """
    return torch.get_float32_matmul_precision() == "highest"
