"""Sums of monomials with values, and of monomials with a state, as functions that autograd differentiates once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.dispatch.second_derivatives import only_first_derivatives
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.backend import near_linear_backend


class _SumOfMonomials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, index_set: IndexSet, size: int) -> Tensor:
        ctx.index_set, ctx.size = index_set, size
        ctx.save_for_backward(x, W)
        backend = near_linear_backend((x, W), 1, W.shape[1] - 1)
        state = x.new_zeros(x.shape[0], index_set.rank, W.shape[1], dtype=torch.float64)
        for start in range(0, x.shape[2], size):
            backend.add(index_set, state, x[..., start : start + size], W[..., start : start + size])
        return state

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, W = ctx.saved_tensors
        backend, grad = near_linear_backend((x, W, grad), 1, W.shape[1] - 1), grad.contiguous()
        grad_x, grad_W = torch.empty_like(x), torch.empty_like(W)
        for start in range(0, x.shape[2], ctx.size):
            here = slice(start, start + ctx.size)
            grad_x[..., here], grad_W[..., here] = backend.gradient(ctx.index_set, x[..., here], grad, W[..., here])
        return grad_x, grad_W, None, None


class _AgainstMonomials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, M: Tensor, index_set: IndexSet, size: int) -> Tensor:
        ctx.index_set, ctx.size = index_set, size
        ctx.save_for_backward(x, M)
        backend, M = near_linear_backend((x, M), 1, M.shape[2] - 1), M.contiguous()
        starts = range(0, x.shape[2], size)
        return torch.cat([backend.sums(index_set, x[..., start : start + size], M) for start in starts], -1)

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, M = ctx.saved_tensors
        backend, index_set = near_linear_backend((x, M, grad), 1, M.shape[2] - 1), ctx.index_set
        grad_x, grad_M, M = torch.empty_like(x), torch.zeros_like(M, dtype=torch.float64), M.contiguous()
        for start in range(0, x.shape[2], ctx.size):
            here = slice(start, start + ctx.size)
            backend.add(index_set, grad_M, x[..., here], grad[..., here])
            grad_x[..., here], _ = backend.gradient(index_set, x[..., here], M, grad[..., here])
        return grad_x, grad_M, None, None


sum_of_monomials: Callable[[Tensor, Tensor, IndexSet, int], Tensor] = _SumOfMonomials.apply
"""sum_n x_n^alpha W_n (H, rank, c) for x (H, d, n) and W (H, c, n) in float64, `size` tokens at a time."""
against_monomials: Callable[[Tensor, Tensor, IndexSet, int], Tensor] = _AgainstMonomials.apply
"""sum_alpha x_n^alpha M_alpha (H, c, n) for x (H, d, n) and M (H, rank, c) in float64, `size` tokens at a time."""
