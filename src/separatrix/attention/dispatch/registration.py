"""Custom PyTorch operators: compilers treat a call as one node, and `vmap` passes it the whole batch.

Their derivatives are registered by `derivatives`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import register_decomposition

LIBRARY = torch.library.Library("separatrix", "FRAGMENT")


def operator(implementation: Callable[..., Any], *, fake: Callable[..., Any], schema: str | None = None) -> Any:
    """Register a function as the operator `separatrix::name`; `fake` returns empty results of the right shapes and
    dtypes. The schema is inferred from the annotations of the function if it is None.

    `torch.library.custom_op` is not used: it imports the compiler, which takes seconds, at the operator's first call.
    """
    name = implementation.__name__.removeprefix("_")

    def kept_by_inductor(*arguments: Any) -> Any:
        # Every graph is traced with fake tensors before Inductor lowers it. Where the environment variable CI is set,
        # Inductor keeps an operator that has a decomposition only if this list has it.
        if (lowering := sys.modules.get("torch._inductor.lowering")) is not None:
            lowering.FALLBACK_ALLOW_LIST.add(f"separatrix::{name}")
        return fake(*arguments)

    schema = schema or torch.library.infer_schema(implementation, mutates_args=())
    LIBRARY.define(f"{name}{schema}", tags=(torch.Tag.needs_exact_strides,))
    LIBRARY.impl(name, implementation, "CompositeExplicitAutograd")
    torch.library.register_fake(f"separatrix::{name}", kept_by_inductor, lib=LIBRARY)
    return getattr(torch.ops.separatrix, name).default


def decomposable(operator: Any, decomposition: Callable[..., Any], *, fake: Callable[..., Any]) -> None:
    """Register an operator's decomposition into PyTorch's own operators, for exporters such as `torch.onnx.export`.

    Compilers, `torch.export` and AOTInductor keep the operator. `fake` is registered again because symbolic shapes
    would otherwise be computed by the decomposition.
    """
    register_decomposition(operator)(decomposition)
    register_decomposition(operator, type="meta")(fake)


def operator_of_heads(
    implementation: Callable[..., Any], *, fake: Callable[..., Any], schema: str | None = None
) -> Any:
    """Register an operator that is applied to each head independently; heads are the first dimension of every tensor.

    The operator returns a tuple or a list of tensors. A dimension that `vmap` maps over is folded into the heads.
    """
    registered = operator(implementation, fake=fake, schema=schema)

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        def fold(x: Any, dim: Any) -> Any:
            if isinstance(x, Tensor):
                return _as_heads(x, dim, info.batch_size)
            if isinstance(x, (list, tuple)):
                dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(x)
                return [fold(entry, where) for entry, where in zip(x, dims, strict=True)]
            return x

        results = registered(*(fold(x, dim) for x, dim in zip(arguments, in_dims, strict=True)))
        unfolded = type(results)(x.unflatten(0, (info.batch_size, -1)) for x in results)
        return unfolded, type(results)(0 for _ in results)

    torch.library.register_vmap(registered, rule, lib=LIBRARY)
    return registered


def _as_heads(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Fold the dimension that `vmap` maps over into the heads; a tensor without it is repeated."""
    x = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.reshape(-1, *x.shape[2:])
