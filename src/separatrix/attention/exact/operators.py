r"""Exact order-k attention as PyTorch operators: what autograd, `torch.compile` and `torch.func` see of the backends.

`separatrix::attend` takes heads in one leading dimension, query (H, L_q, d), with a key and value head for each query
head or for each group of consecutive query heads. The operator returns the output and the log-sum-exp.
`separatrix::attend_backward` is its gradient and `separatrix::attend_tangents` its derivative in forward mode; both
recompute the weights block by block. Either every key set has a mask, or all masks are None: AOTInductor cannot pass an
empty list to an operator, and `vmap` does not see tensors in a list that may be None.

Each operator has a twin in PyTorch's own functions, for small sizes, because it stores the whole attention tensor. The
twin of `attend` is exported to formats that have standard operators only; the other two are differentiated for second
and higher derivatives, in either mode.

**Flops**, for `torch.utils.flop_counter.FlopCounterMode`. As for ordinary attention in PyTorch, only the matrix
products over the tuples are counted, with two flops for each multiply-add. For T allowed tuples of a query and k - 1
sets

    forward:   2 T (d + d_v)                  scores, output
    backward:  2 T ((k + 1) d + k d_v)        scores and the gradients of query and keys; those of weights and values

**Only tuples that causality and windows allow are counted**; key masks are ignored. Order 2 without windows and masks
is PyTorch's own operator, for which PyTorch has its own formulas: they count all pairs, and there is no formula for its
CPU kernel. Near-linear attention is not counted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention import reference
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call, Positions
from separatrix.attention.dispatch.registration import (
    decomposable,
    differentiable,
    differentiable_by,
    forward_mode,
    operator_of_heads,
)
from separatrix.attention.exact import guarded
from separatrix.attention.exact.torch import contracted, gradients_of_tuples, tangents_of_tuples
from separatrix.errors import ArgumentError, SeparatrixError

CALL = (
    "Tensor query, Tensor[] keys, Tensor[] values, Tensor?[] masks, "
    "bool is_causal, SymInt offset, SymInt[] windows, float scale"
)
"""The arguments of every operator of exact attention, as `operator_call` reads them."""
LARGEST_VOLUME = 1 << 22
"""The largest H * L_q * L_1 * ... * L_{k-1} for which second derivatives are computed."""
LARGEST_DECOMPOSED_VOLUME = 1 << 28
"""The largest H * L_q * L_1 * ... * L_{k-1} for which attention is decomposed: 1 GiB in float32."""


def exact_attention(call: Call) -> tuple[Tensor, Tensor]:
    """The output (..., L_q, d_v) and the log-sum-exp (..., L_q) of a checked call."""
    gradient = torch.is_grad_enabled() and any(x.requires_grad for x in call.tensors)
    is_plain = not gradient and needs_numbers_alone(call.tensors)
    if is_plain and not call.positions.has_window:
        with no_autocast(call.query.device.type):
            out, lse = guarded.forward(call)
        return call.shaped(out), call.shaped(lse)
    if not torch.compiler.is_compiling() and torch._C._len_torch_dispatch_stack():
        register_flop_formulas()
    out, lse = (_attend if is_plain else attend)(*operands(call))
    return call.shaped(out), call.shaped(lse)


def operands(call: Call) -> tuple[Any, ...]:
    """The arguments of an operator for a call, as `operator_call` reads them."""
    positions = call.positions
    # Positions differ by less than 2^63, so a longer window is equivalent to this one.
    windows = [0 if window is None else min(window, 2**63 - 1) for window in positions.windows]
    tensors = (call.query, list(call.keys), list(call.values), list(call.mask_of_each))
    return (*tensors, positions.is_causal, positions.offset, windows, call.scale)


def needs_numbers_alone(tensors: Sequence[Tensor]) -> bool:
    """Whether no transform, compiler or dispatch mode needs to see a computation with plain tensors.

    PyTorch's dispatcher takes as long as attention of a few short heads.
    """
    return (
        not torch.compiler.is_compiling()  # checked first, because a compiler cannot trace the rest
        and {*map(type, tensors)} <= _PLAIN
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not forward_mode()
    )


_PLAIN = {Tensor, torch.nn.Parameter}


def operator_call(
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    masks: Sequence[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: Sequence[int],
    scale: float,
) -> Call:
    """The call for the arguments of an operator; a window of 0 means no window.

    Raises:
        ArgumentError: Some key sets have a mask and others have None.
    """
    positions = Positions(is_causal, offset, tuple(window or None for window in windows))
    key_masks = tuple(mask for mask in masks if mask is not None)
    if key_masks and len(key_masks) != len(keys):
        raise ArgumentError("masks", expected="a mask for every key set, or for none", got=f"{len(key_masks)} masks")
    return Call(query, tuple(keys), tuple(values), key_masks, positions, scale)


def _attend(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Output (H, L_q, d_v) and log-sum-exp (H, L_q)."""
    call = operator_call(*arguments)
    with no_autocast(call.query.device.type):
        return guarded.forward(call)


def attend_by_reference(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The results of `attend` without its guards, for finite input whose scores are in range."""
    call = operator_call(*arguments)
    volume = _example_size(math.prod((*call.query.shape[:2], *call.key_lengths)))
    if volume > LARGEST_DECOMPOSED_VOLUME:
        raise SeparatrixError(
            "Exact attention in standard operators (torch.onnx.export) holds the whole attention tensor, of at most "
            f"{LARGEST_DECOMPOSED_VOLUME} entries; this call has {volume}. Export with a shorter example or a smaller "
            "batch, or compile the model by AOTInductor, which keeps the operator."
        )
    wide = call.widened()
    out, lse = reference.tensor_attention(wide.query, wide.keys, wide.values, **_options(wide))
    return out.to(call.query.dtype), lse


def _example_size(size: int | torch.SymInt) -> int:
    """A size; for a symbolic size, its value in the example from which the graph is traced."""
    if isinstance(size, int):
        return size
    from torch.fx.experimental.symbolic_shapes import optimization_hint  # this module imports SymPy

    return optimization_hint(size)


def _attended(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> tuple[Tensor, Tensor]:
    dtype = query.dtype if query.dtype == torch.float64 else torch.float32
    out = query.new_empty(query.shape[0], query.shape[1], values[0].shape[2])
    return out, query.new_empty(query.shape[:2], dtype=dtype)


attend = operator_of_heads(_attend, fake=_attended, schema=f"({CALL}) -> (Tensor, Tensor)")


def _attend_backward(*arguments: Any) -> list[Tensor]:
    """The gradients of query, keys and values in one list: from the call, its results and the incoming gradients."""
    call = operator_call(*arguments[:8])
    with no_autocast(call.query.device.type):
        grad_query, grad_keys, grad_values = guarded.backward(call, *arguments[8:])
    return [grad_query, *grad_keys, *grad_values]


def _backward_by_reference(*arguments: Any) -> list[Tensor]:
    """The results of `attend_backward`, as functions of the call and the incoming gradients."""
    given = operator_call(*arguments[:8])
    call, (_, _, grad_out, grad_lse) = given.widened(), arguments[8:]
    P, dO = _weights(call), grad_out.to(call.query.dtype)
    delta = (P * reference.tensor_scores(dO, call.values, 1.0)).flatten(2).sum(-1) - grad_lse
    rows = dO, delta, dO, call.query * call.scale
    grad_query, *grads = gradients_of_tuples(P, call.keys, call.values, rows)
    if given.shared > 1:
        grads = [x.unflatten(0, (-1, given.shared)).sum(1) for x in grads]
    return [x.to(given.query.dtype) for x in (grad_query * call.scale, *grads)]


def gradients_like(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> list[Tensor]:
    """Empty tensors of the shapes of query, keys and values."""
    return [x.new_empty(x.shape) for x in (query, *keys, *values)]


attend_backward = operator_of_heads(
    _attend_backward,
    fake=gradients_like,
    schema=f"({CALL}, Tensor out, Tensor lse, Tensor grad_out, Tensor grad_lse) -> Tensor[]",
)


def _attend_tangents(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The tangents of output and log-sum-exp: from the call, its results and the tangents of its tensors."""
    call, moved, out, lse = _call_and_tangents(*arguments)
    with no_autocast(call.query.device.type):
        changes = (moved.query, moved.keys, moved.values)
        out_dot, lse_dot = guarded.tangents(call, out.to(call.query.dtype), lse, changes)
    return out_dot.to(out.dtype), lse_dot


def _tangents_by_reference(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The results of `attend_tangents`, as functions of the call and the tangents of its tensors."""
    call, moved, out, _ = _call_and_tangents(*arguments)
    P = _weights(call)
    tensors, changes = ((x.query, x.keys, x.values) for x in (call, moved))
    out_dot, lse_dot = tangents_of_tuples(P, tensors, changes, call.scale)
    exact_out = contracted(0, P, (call.query, *call.values))
    return (out_dot - lse_dot.unsqueeze(-1) * exact_out).to(out.dtype), lse_dot


def _call_and_tangents(*arguments: Any) -> tuple[Call, Call, Tensor, Tensor]:
    """The widened call, the same call with the tangents in place of its tensors, and the results of the call."""
    out, lse, *tangents = arguments[8:]
    call, moved = (operator_call(*tensors, *arguments[3:8]).widened() for tensors in (arguments[:3], tangents))
    return call, moved, out, lse


attend_tangents = operator_of_heads(
    _attend_tangents,
    fake=_attended,
    schema=f"({CALL}, Tensor out, Tensor lse, Tensor query_tangent, Tensor[] key_tangents, Tensor[] value_tangents) "
    "-> (Tensor, Tensor)",
)


def _weights(call: Call) -> Tensor:
    """P (H, L_q, L_1, ..., L_{k-1}) of a widened call, zero for a query with nothing to attend."""
    volume = math.prod((*call.query.shape[:2], *call.key_lengths))
    if volume > LARGEST_VOLUME:
        raise SeparatrixError(
            "The second derivative of exact attention holds the whole attention tensor, of at most "
            f"{LARGEST_VOLUME} entries; this call has {volume}."
        )
    return reference.attention_weights(call.query, call.keys, **_options(call))


def _options(call: Call) -> dict[str, Any]:
    """The options of a call, as the functions of `reference` take them."""
    positions = call.positions
    return {
        "is_causal": positions.is_causal,
        "query_offset": positions.offset,
        "key_masks": call.masks or None,
        "windows": positions.windows,
        "scale": call.scale,
    }


def _backward(arguments: list[Any], results: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    gradients: list[Tensor] = attend_backward(*arguments, *results, *grads)
    return gradients


def _forward(arguments: list[Any], results: list[Tensor], changes: list[Tensor]) -> list[Any]:
    sets = len(arguments[1])
    return [*arguments, *results, changes[0], changes[1 : 1 + sets], changes[1 + sets : 1 + 2 * sets]]


differentiable(attend, backward=_backward, forward=_forward, tangents=attend_tangents)
differentiable_by(attend_backward, _backward_by_reference)
differentiable_by(attend_tangents, _tangents_by_reference)
decomposable(attend, attend_by_reference, fake=_attended)


Shape = Sequence[int]


def count_allowed_tuples(
    query: Shape, keys: Sequence[Shape], is_causal: bool, offset: int, windows: Sequence[int | None]
) -> int:
    """The number of tuples in all heads that positions allow, for a query (H, L_q, d) and keys (H, L_m, d).

    >>> count_allowed_tuples((1, 3, 2), [(1, 3, 2)] * 2, True, 0, (None, None))  # 1 + 4 + 9
    14
    """
    heads, length, lengths = query[0], query[1], [key[1] for key in keys]
    if not is_causal and not any(windows):
        return heads * length * math.prod(lengths)
    positions = Positions(is_causal, offset, tuple(window or None for window in windows))

    def visible(m: int, i: int) -> int:
        start, stop = positions.visible(m, i, lengths[m])
        return stop - start

    return heads * sum(math.prod(visible(m, i) for m in range(len(lengths))) for i in range(length))


def _forward_flops(query: Shape, keys: Sequence[Shape], values: Sequence[Shape], *rest: Any, **_: object) -> int:
    _masks, is_causal, offset, windows, *_scale = rest
    return 2 * count_allowed_tuples(query, keys, is_causal, offset, windows) * (query[2] + values[0][2])


def _backward_flops(query: Shape, keys: Sequence[Shape], values: Sequence[Shape], *rest: Any, **_: object) -> int:
    _masks, is_causal, offset, windows, *_incoming = rest
    order = len(keys) + 1
    products = (order + 1) * query[2] + order * values[0][2]
    return 2 * count_allowed_tuples(query, keys, is_causal, offset, windows) * products


def register_flop_formulas() -> None:
    """Register the formulas with the active flop counters and with those created later.

    PyTorch's module of flop counters imports Triton if it is installed, so it is not imported just for this. A counter
    copies the registered formulas when it is created.
    """
    module: Any = sys.modules.get("torch.utils.flop_counter")
    if module is None:
        return
    operators = torch.ops.separatrix
    for operator, formula in ((operators.attend, _forward_flops), (operators.attend_backward, _backward_flops)):
        if operator not in module.flop_registry:
            module.register_flop_formula(operator)(formula)
        for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
            if isinstance(mode, module._FlopCounterMode):
                mode.counter.flop_registry.setdefault(operator, module.flop_registry[operator])


register_flop_formulas()
