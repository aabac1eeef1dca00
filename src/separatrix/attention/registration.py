"""PyTorch operators of our own, so that compilers keep a call whole and `vmap` hands it the whole batch.

All of them have their heads in the first dimension of every tensor, arguments and results alike, so that one batching
rule serves all: the dimension that is mapped over becomes more heads. `derivatives` tells PyTorch their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("separatrix", "FRAGMENT")


def operator(implementation: Callable[..., Any], *, fake: Callable[..., Any]) -> Any:
    """Register `separatrix::name` for a function of that name.

    `torch.library.custom_op` does the same, and imports the compiler, seconds of it, when the operator is first called.

    Args:
        implementation: The function, with annotations for all arguments and for what it returns: a tuple or
            a list of tensors.
        fake: The same for shapes and types alone: it returns empty tensors.

    Returns:
        The operator.
    """
    name = implementation.__name__.removeprefix("_")
    LIBRARY.define(f"{name}{torch.library.infer_schema(implementation, mutates_args=())}")
    LIBRARY.impl(name, implementation, "CompositeExplicitAutograd")
    torch.library.register_fake(f"separatrix::{name}", fake, lib=LIBRARY)
    made = getattr(torch.ops.separatrix, name).default
    torch.library.register_vmap(made, _batching_rule(made), lib=LIBRARY)
    return made


def _batching_rule(made: Any) -> Callable[..., Any]:
    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        def fold(x: Any, dim: Any) -> Any:
            if isinstance(x, Tensor):
                return _as_heads(x, dim, info.batch_size)
            if isinstance(x, (list, tuple)):
                dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(x)
                return [fold(each, where) for each, where in zip(x, dims, strict=True)]
            return x

        results = made(*(fold(x, dim) for x, dim in zip(arguments, in_dims, strict=True)))
        unfolded = type(results)(x.unflatten(0, (info.batch_size, -1)) for x in results)
        return unfolded, type(results)(0 for _ in results)

    return rule


def _as_heads(x: Tensor, dim: int | None, size: int) -> Tensor:
    """The mapped dimension, or a copy of the tensor for each of it, folded into the heads."""
    x = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.reshape(-1, *x.shape[2:])
