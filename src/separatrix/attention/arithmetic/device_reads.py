"""The only module that reads tensor entries on the host, which synchronizes with the device.

Whether factors need balancing, which plan is chosen and whether an output raises an error depend on tensor entries. On
a GPU each read waits for the queue, and a fake tensor has no entries. Because all reads go through `read`, tests can
count them, and supply entries for fake tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def read(x: Tensor) -> Any:
    """The entries of a tensor as Python numbers, read from its device: `numbers`, `number` and `truth` call this."""
    return x.tolist()


def numbers(x: Tensor) -> Any:
    """The entries of a tensor as nested lists of Python numbers, or one number for a tensor without dimensions.

    >>> import torch
    >>> numbers(torch.tensor([[1.0, 2.0]])), numbers(torch.tensor(True))
    ([[1.0, 2.0]], True)
    """
    return read(x)


def number(x: Tensor) -> float:
    """The entry of a tensor of one element as a float.

    >>> import torch
    >>> number(torch.tensor([3]))
    3.0
    """
    return float(read(x if x.dim() == 0 else x.reshape(())))


def largest_number(x: Tensor) -> float:
    """The largest entry of a tensor as a float; 0 for an empty tensor.

    >>> import torch
    >>> largest_number(torch.tensor([1.0, 3.0])), largest_number(torch.empty(0))
    (3.0, 0.0)
    """
    return number(x.max()) if x.numel() else 0.0


def truth(x: Tensor) -> bool:
    """The entry of a tensor of one element as a bool.

    >>> import torch
    >>> truth(torch.ones(3).eq(1).all())
    True
    """
    return bool(read(x if x.dim() == 0 else x.reshape(())))
