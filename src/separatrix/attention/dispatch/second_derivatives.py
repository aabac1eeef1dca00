"""Errors for the derivatives that near-linear attention does not have: second derivatives and forward mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any, NoReturn

import torch

from separatrix.errors import SeparatrixError


def no_second_derivatives(*_: object) -> NoReturn:
    """Raise the error for a second derivative of near-linear attention."""
    raise SeparatrixError(
        "tolerance: near-linear attention has no second derivatives, only gradients (create_graph=True was given, or "
        "torch.func transforms were nested). Exact attention has them: leave the tolerance out."
    )


def no_forward_mode(*_: object) -> NoReturn:
    """Raise the error for forward-mode differentiation of near-linear attention."""
    raise SeparatrixError(
        "tolerance: near-linear attention has gradients in reverse mode only (torch.autograd, torch.func.grad), not in "
        "forward mode (torch.func.jvp and jacfwd, torch.autograd.forward_ad). Exact attention has both: leave the "
        "tolerance out."
    )


def only_first_derivatives(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates the `backward` of a `torch.autograd.Function` that cannot be differentiated again.

    `torch.autograd.function.once_differentiable` has another message, and treats a gradient as a constant if the
    incoming gradient is a constant: a second derivative of a sum would then silently lack this function's part.
    """

    @wraps(backward)
    def first(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors  # read once: gradient checkpointing unpacks each tensor only once
        context = SimpleNamespace(**vars(ctx), saved_tensors=saved)
        return _once(lambda: backward(context, *grads), *grads, *saved)

    return first


class _Once(torch.autograd.Function):
    """The result of `compute`, recorded so that differentiating it with respect to the tensors raises an error."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Any], *behind: Any) -> Any:
        return compute()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> NoReturn:
        no_second_derivatives()

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> NoReturn:
        no_forward_mode()


_once: Callable[..., Any] = _Once.apply
