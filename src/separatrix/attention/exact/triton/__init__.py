"""Exact attention of every order from 3 on by kernels in Triton: the backend for GPUs.

- `programs`: the kernels, forward and backward, which are compiled when they are first launched.
- `description`: a call in the form that the kernels read.
- `launch`: the launches of a forward and a backward pass.
- `sequences`: packed sequences, all computed by one launch.
- `configurations`: the blocks that the kernels are compiled for.
- `engine`: the interface of a backend, as `exact.backend` describes it.
- `size`: whether the factors of a call may be multiplied without scaling.

The kernels are tested in Triton's interpreter and compiled for the architectures of `dispatch.gpu.ARCHITECTURES`; they
are not yet timed on hardware.
"""

from separatrix.attention.exact.torch import tangents
from separatrix.attention.exact.triton.engine import (
    backward,
    forward,
    gradient_summation,
    summation,
    takes,
    unproved,
)
from separatrix.attention.exact.triton.size import size_of

NAME = "triton"
TAKES_AS_GIVEN = True

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
