"""The backends of exact attention: the interface that each of them implements, and the rule that chooses one.

A backend computes attention over all allowed tuples, and describes its order of summation, from which the bounds on its
rounding follow. A backend need not handle overflow, underflow, NaN or infinity: `guarded` does that for every backend.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summation
from separatrix.attention.call import Call, Changes, Gradients
from separatrix.attention.exact import native as native_backend
from separatrix.attention.exact import torch as torch_backend
from separatrix.attention.exact import triton
from separatrix.attention.exact.balance import Size
from separatrix.errors import SeparatrixError


class ExactBackend(Protocol):
    """The interface of a backend: a module or an object with the following attributes."""

    NAME: str
    TAKES_AS_GIVEN: bool
    """Whether the backend supports half types, heads that share keys, and masked entries of any value; otherwise
    `guarded` widens the call first."""

    def takes(self, call: Call, dtype: torch.dtype | None = None) -> bool:
        """Whether the backend supports a call in a dtype; by default the dtype of the call."""

    def size_of(self, call: Call) -> Size:
        """Whether the factors of a call need no balancing."""

    def forward(self, call: Call) -> tuple[Tensor, Tensor]:
        """The output (H, L_q, d_v) in the call's dtype, and the log-sum-exp (H, L_q) in the dtype of the arithmetic."""

    def backward(self, call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
        """The gradients of query, keys and values, given the gradients of the output and of the log-sum-exp."""

    def tangents(self, call: Call, out: Tensor, lse: Tensor, changes: Changes) -> tuple[Tensor, Tensor]:
        """The tangents of output and log-sum-exp, given the tangents of query, keys and values."""

    def summation(self, call: Call, dtype: torch.dtype) -> Summation:
        """The summation of the weights of a query in the forward pass, in a dtype."""

    def gradient_summation(self, call: Call, dtype: torch.dtype) -> Summation:
        """The summation of the backward pass in a dtype."""

    def unproved(self, call: Call, dtype: torch.dtype) -> str | None:
        """The assumption of the error bounds that is not proved for tensors of a dtype on the call's device; None if
        all are proved."""


BACKENDS: tuple[ExactBackend, ...] = (native_backend, triton, torch_backend)
"""From the first to the last choice: C++ on the CPU, Triton on a GPU, and plain PyTorch, which supports every call."""


def exact_backend(call: Call, dtype: torch.dtype | None = None) -> ExactBackend:
    """The backend for a call in a dtype; it depends only on the device, the shape and the installed packages.

    The dtype is that of the call if none is given.
    """
    return next(backend for backend in BACKENDS if backend.takes(call, dtype))


def require_proved(call: Call, dtype: torch.dtype) -> None:
    """Raise a `SeparatrixError` if no error bound is proved for a call that is computed in a dtype.

    The tensors of the call are converted to this dtype before they are passed to the backend.
    """
    missing = exact_backend(call, dtype).unproved(call, dtype)
    if missing is not None:
        raise SeparatrixError(f"query: no bound on the error is known for {dtype} on this device. {missing}")
