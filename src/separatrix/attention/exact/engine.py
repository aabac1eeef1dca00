"""The engines of exact attention: one interface, and the one rule that chooses among them.

An engine computes attention over all allowed tuples, and says in which order it adds up, from which the bounds on its
rounding follow. It need not care for numbers out of range or not finite: `guarded` does that for every engine.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from separatrix.attention.arithmetic.summation import Summation
from separatrix.attention.call import Call, Changes, Gradients
from separatrix.attention.exact import blocks, kernels
from separatrix.attention.exact.balance import Size


class Engine(Protocol):
    """What an engine provides: a module with these names, or an object."""

    NAME: str
    TAKES_AS_GIVEN: bool
    """Whether it takes half types, heads that share keys, and anything under a mask; else a call has to be widened."""

    def size_of(self, call: Call) -> Size:
        """Whether the factors of a call are of a size that needs no balancing."""

    def forward(self, call: Call) -> tuple[Tensor, Tensor]:
        """The output (H, L_q, d_v) in the type of the call, and the log-sum-exp (H, L_q) in that of the arithmetic."""

    def backward(self, call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
        """The gradients of query, keys and values, from those of the output and of the log-sum-exp."""

    def tangents(self, call: Call, out: Tensor, lse: Tensor, changes: Changes) -> tuple[Tensor, Tensor]:
        """The changes of output and log-sum-exp, from those of query, keys and values."""

    def summation(self, call: Call, dtype: torch.dtype) -> Summation:
        """How a weight gets into the sums of its query when the call is computed in a type."""

    def gradient_summation(self, call: Call, dtype: torch.dtype) -> Summation:
        """How the backward pass adds up when it is computed in a type."""


def engine_for(call: Call) -> Engine:
    """The engine that computes a call: the kernels in C++ where they have it, else plain PyTorch, by blocks."""
    return kernels if kernels.takes(call) else blocks
