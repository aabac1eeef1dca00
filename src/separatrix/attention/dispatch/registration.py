"""Custom PyTorch operators: compilers treat a call as one node, and `vmap` passes it the whole batch.

The dispatcher handles every kind of differentiation: autograd, every level of `torch.func`, and the compiler, which
traces a derivative as it traces any other operator. `torch.library.register_autograd` does the same for autograd and
the compiler, but not for `torch.func`, and has no forward mode.

A *level* is one transform of `torch.func`, or autograd below all of them. The dispatcher calls an operator once for
each level, from the innermost out, and a derivative that is taken at one level is an operator call at the next.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch._decomp import register_decomposition
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from separatrix.errors import SeparatrixError

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


Backward = Callable[[list[Any], list[Tensor], list[Tensor]], Sequence[Tensor | None]]
"""Maps an operator's arguments, its results and the gradients of the results to the gradients of the tensor
arguments."""
Forward = Callable[[list[Any], list[Tensor], list[Tensor]], list[Any]]
"""Maps an operator's arguments, its results and the tangents of the tensor arguments to the arguments of the operator
that computes the tangents of the results."""


def forward_mode() -> bool:
    """Whether a level of forward differentiation is open, of `torch.func.jvp` or of `torch.autograd.forward_ad`."""
    return forward_ad._current_level >= 0


def beyond_one_gradient() -> bool:
    """Whether forward mode, `vmap` or nested `torch.func` transforms are active.

    PyTorch's own fused operators have no rules for these.
    """
    if forward_mode():
        return True
    if not torch._C._are_functorch_transforms_active():
        return False
    levels = None if torch.compiler.is_compiling() else torch._C._functorch.get_interpreter_stack()
    return levels is None or len(levels) > 1 or levels[0].key() != TransformType.Grad


def has_tangent(arguments: Sequence[Any]) -> bool:
    """Whether a tensor has a tangent at the current level."""
    # A compiler that traces torch.func opens levels that `forward_ad` does not know of.
    open_level = forward_mode() or torch._C._are_functorch_transforms_active()
    if not open_level or not torch._C._is_fwd_grad_enabled():
        return False
    return any(forward_ad.unpack_dual(x, level=0).tangent is not None for x in _tensors(arguments))


def differentiable(
    operator: Any, *, backward: Backward, forward: Forward, tangents: Any = None, results: int | None = None
) -> None:
    """Register both derivatives of an operator.

    Args:
        operator: The operator.
        backward: The gradients of the tensors in the arguments, also of those in lists, from the first to the last.
            Tensors at the end that have no gradient, masks for example, are left out.
        forward: Computes the arguments of `tangents` from the tangents of all these tensors.
        tangents: The operator that computes the tangents of the results; None if `forward` only raises an error.
        results: The first `results` results have derivatives; None for all results.
    """
    apply = _recorded(operator, backward, forward, tangents, results)

    def kernel(keyset: Any, *arguments: Any) -> Any:
        if _requires_grad(arguments) or has_tangent(arguments):
            return apply(keyset, arguments)
        return _below(operator, keyset, arguments)

    LIBRARY.impl(operator._opname, kernel, "Autograd", with_keyset=True)


def differentiable_by(operator: Any, formula: Callable[..., Any]) -> None:
    """Register derivatives of any order for an operator, from a differentiable PyTorch function that computes the same
    results.

    Args:
        operator: The operator.
        formula: A function of the same arguments and results. The function runs only if the operator is differentiated:
            in the backward pass of reverse mode, and instead of the operator in forward mode.
    """

    def backward(arguments: list[Any], _: list[Tensor], grads: list[Tensor]) -> Sequence[Tensor | None]:
        emptied, tensors = [_emptied(x) for x in arguments], _tensors(arguments)
        smooth = [x.is_floating_point() for x in tensors]

        def of_smooth(*leaves: Tensor) -> tuple[Tensor, ...]:
            left = iter(leaves)
            whole = [next(left) if may else x for x, may in zip(tensors, smooth, strict=True)]
            return tuple(formula(*_filled(emptied, whole)))

        leaves = [x for x, may in zip(tensors, smooth, strict=True) if may]
        gradients = iter(torch.func.vjp(of_smooth, *leaves)[1](tuple(grads)))
        return [next(gradients) if may else None for may in smooth]

    apply = _recorded(operator, backward)

    def kernel(keyset: Any, *arguments: Any) -> Any:
        if has_tangent(arguments):
            return formula(*arguments)
        if _requires_grad(arguments):
            return apply(keyset, arguments)
        return _below(operator, keyset, arguments)

    LIBRARY.impl(operator._opname, kernel, "Autograd", with_keyset=True)


def _recorded(
    operator: Any,
    backward: Backward,
    forward: Forward | None = None,
    tangents: Any = None,
    results: int | None = None,
) -> Callable[[Any, Sequence[Any]], Any]:
    """A function of the dispatch keys and the arguments that calls the operator and records it at one level."""

    class RecordedOperator(torch.autograd.Function):
        @staticmethod
        def forward(keyset: Any, emptied: list[Any], *tensors: Tensor) -> tuple[Tensor, ...]:
            with _other_levels():
                return tuple(_below(operator, keyset, _filled(emptied, tensors)))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            ctx.keyset, ctx.emptied, *tensors = inputs
            ctx.count = len(tensors)
            ctx.mark_non_differentiable(*output[len(output) if results is None else results :])
            ctx.save_for_backward(*tensors, *output)
            ctx.save_for_forward(*tensors, *output)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
            saved = ctx.saved_tensors  # read once, because gradient checkpointing unpacks each tensor only once
            arguments = _filled(ctx.emptied, saved[: ctx.count])
            gradients = backward(arguments, list(saved[ctx.count :]), list(grads[:results]))
            return None, None, *gradients, *[None] * (ctx.count - len(gradients))

        @staticmethod
        def jvp(ctx: Any, _keyset: None, _emptied: None, *changes: Tensor | None) -> tuple[Any, ...]:
            assert forward is not None
            saved = ctx.saved_tensors
            tensors, results = saved[: ctx.count], saved[ctx.count :]
            given = [torch.zeros_like(x) if dx is None else dx for x, dx in zip(tensors, changes, strict=True)]
            arguments = forward(_filled(ctx.emptied, tensors), list(results), given)
            if torch._C._are_functorch_transforms_active():  # call the operator at the remaining levels
                with _other_levels():
                    tangents_of_results = _below(tangents, ctx.keyset, arguments)
            else:
                tangents_of_results = tangents(*arguments)
            return *tangents_of_results, *[None] * (len(results) - len(tangents_of_results))

    # `torch.autograd.Function.apply` would go through the levels of torch.func again, which the dispatcher has already
    # done.
    apply: Callable[..., tuple[Tensor, ...]] = super(torch.autograd.Function, RecordedOperator).apply
    as_returned = list if len(operator._schema.returns) == 1 else tuple

    def call(keyset: Any, arguments: Sequence[Any]) -> Any:
        with enable_single_level_autograd_function():
            return as_returned(apply(keyset, [_emptied(x) for x in arguments], *_tensors(arguments)))

    return call


def _requires_grad(arguments: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in _tensors(arguments))


@contextmanager
def _other_levels() -> Iterator[None]:
    """Enable gradients inside a `torch.autograd.Function`, where they are disabled, if levels below it need them."""
    below = torch._C._are_functorch_transforms_active()
    with torch.set_grad_enabled(below), forward_ad._set_fwd_grad_enabled(below):
        yield


def _below(operator: Any, keyset: Any, arguments: Sequence[Any]) -> Any:
    """Call the operator at the next level, or its implementation at the last level."""
    return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)


@dataclass(frozen=True)
class _Tensors:
    """A placeholder for a list of `count` tensors, or for a single tensor if `count` is None."""

    count: int | None


def _tensors(arguments: Sequence[Any]) -> list[Tensor]:
    """All tensors in the arguments, including those in lists."""
    return [t for x in arguments for t in (x if isinstance(x, (list, tuple)) else (x,)) if isinstance(t, Tensor)]


def _emptied(x: Any) -> Any:
    """An argument with its tensors replaced by placeholders; autograd saves the tensors."""
    if isinstance(x, Tensor):
        return _Tensors(None)
    return _Tensors(len(x)) if isinstance(x, (list, tuple)) and x and isinstance(x[0], Tensor) else x


def _filled(emptied: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
    """The arguments with the placeholders replaced by tensors."""
    left = iter(tensors)

    def fill(x: Any) -> Any:
        if not isinstance(x, _Tensors):
            return x
        return next(left) if x.count is None else [next(left) for _ in range(x.count)]

    return [fill(x) for x in emptied]


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
