"""Exact attention in plain PyTorch, by blocks that stay in cache: the backend for every device.

- `passes`: the forward and the backward pass.
- `tangents`: forward mode.
- `tiling`: how the volume of a call is cut into blocks, and in which order they are added up.
- `schedule`: which boxes of the volume causality and windows leave to be visited.
- `contested`: the pairs inside a box that some of its queries may attend and others may not.
- `kronecker_rows`: rows of the column-wise Kronecker product, a few at a time.
- `overflow`: when exp(scores) can be summed without subtracting a maximum.
"""

from separatrix.attention.exact.balance import size_of
from separatrix.attention.exact.torch.passes import backward, forward
from separatrix.attention.exact.torch.tangents import tangents
from separatrix.attention.exact.torch.tiling import gradient_summation, summation, takes, unproved

NAME = "torch"
TAKES_AS_GIVEN = False

__all__ = [
    "NAME",
    "TAKES_AS_GIVEN",
    "backward",
    "forward",
    "gradient_summation",
    "size_of",
    "summation",
    "takes",
    "tangents",
    "unproved",
]
