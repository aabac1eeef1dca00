"""The overhead of a call on tensors of a few entries: order 3, and certified; the times of the kernels and autograd."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.exact import Inputs, draw, gradients
from benchmarks.timing import alternate
from separatrix.attention.call import check_call
from separatrix.attention.exact import native as kernels
from separatrix.native import native

N, D = 8, 16
REPEATED = 200
"""The number of calls in a row that are timed as one: the clock takes a tenth of a microsecond."""
PLAIN, WITH_OPTIONS, CERTIFIED = 40e-6, 60e-6, 60e-6
"""Seconds that a call may take, without and with options, and with a certificate of exact attention."""
MASK = torch.arange(N) < N - 2
OPTIONS: dict[str, dict[str, Any]] = {
    "no options": {},
    "causal, with log-sum-exp": {"is_causal": True, "return_lse": True},
    "windows": {"windows": (4, 3)},
    "masks": {"key_masks": MASK},
    "grouped heads": {"enable_gqa": True},
    "all of these": {
        "is_causal": True,
        "windows": (4, 3),
        "key_masks": MASK,
        "enable_gqa": True,
        "return_lse": True,
    },
}


def repeated(function: Callable[[], object], *, seconds: float = 0.5) -> float:
    """The best mean time of a call, over rounds of calls in a row."""

    def round_of_calls() -> None:
        for _ in range(REPEATED):
            function()

    return alternate({"": round_of_calls}, seconds=seconds)[""] / REPEATED


def inputs(enable_gqa: bool) -> Inputs:
    """Inputs with one head, or, for grouped heads, four query heads that share two key and value heads."""
    if not enable_gqa:
        return draw(3, N, D)
    query, keys, values = draw(3, N, D, 4)
    return query, [x[:, :2].contiguous() for x in keys], [x[:, :2].contiguous() for x in values]


def kernel_seconds(sizes: Inputs, options: dict[str, Any]) -> float:
    """The time of the kernels alone for a call whose arguments are already prepared; NaN without C++ kernels."""
    if native().library is None:
        return float("nan")
    call = check_call(*sizes, **{name: option for name, option in options.items() if name != "return_lse"})
    out, lse = kernels.forward(call)
    described, forward = kernels._described(call), kernels._function("forward", 3)
    return repeated(lambda: forward(ctypes.byref(described), out.data_ptr(), lse.data_ptr()))


class _Nothing(torch.autograd.Function):
    """Zeros in place of the output and of all gradients: the overhead of autograd for a function of five tensors."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return torch.empty_like(tensors[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return tuple(torch.empty_like(x) for x in ctx.saved_tensors)


def _output(result: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


def certified(order: int) -> Row:
    """The row of a certified call, which exact attention answers."""
    call = partial(sx.certified_attention, *draw(order, N, D), tolerance=1e-3)
    name = f"order {order}, n = {N}, d = {D}, certified: a call"
    with torch.no_grad():
        return Row(name, repeated(call), f"{CERTIFIED * 1e6:.0f} microseconds", CERTIFIED, 1.0)


def rows() -> Iterator[Row]:
    yield from (certified(order) for order in (2, 3))
    for name, options in OPTIONS.items():
        sizes = inputs("enable_gqa" in options)
        attend = partial(sx.tensor_attention, **options)
        with torch.no_grad():
            forward = repeated(lambda: attend(*sizes))  # noqa: B023
        kernel = kernel_seconds(sizes, options)
        limit = WITH_OPTIONS if options else PLAIN
        note = f"kernel {kernel * 1e6:.1f} µs, checks and the rest {(forward - kernel) * 1e6:.1f} µs"
        what = f"order 3, n = {N}, d = {D}, {name}"
        yield Row(f"{what}: a call", forward, f"{limit * 1e6:.0f} microseconds", limit, 1.0, note=note)
        both = repeated(gradients(lambda *tensors: _output(attend(*tensors)), sizes))  # noqa: B023
        empty = repeated(gradients(lambda query, keys, values: _Nothing.apply(query, *keys, *values), sizes))
        yield Row(f"{what}: forward + backward", both, "autograd of an empty function", empty)
