"""What the attention operators may be called with: the constraints, declared once, and the call they admit.

A constraint is data: the argument it speaks of, what is expected, and how to find what breaks it. Every message is
worded from these in one place, and the tests break every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real

import torch
from torch import Tensor

from separatrix.attention.exact.blocks.schedule import Positions
from separatrix.errors import ArgumentError

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
LARGEST_OFFSET = 2**62
"""Positions, which are offsets and indices added up, stay within the integers of 64 bits."""


@dataclass(frozen=True)
class Call:
    """The arguments of a call, with keys, values, masks and windows as sequences of one entry for each set."""

    query: Tensor
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    is_causal: bool
    query_offset: int
    key_masks: tuple[Tensor | None, ...]
    windows: tuple[int | None, ...]
    scale: float
    enable_gqa: bool

    @property
    def order(self) -> int:
        return len(self.keys) + 1

    @property
    def positions(self) -> Positions:
        return Positions(self.is_causal, self.query_offset, self.windows)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.query, *self.keys, *self.values)

    def name(self, tensor: int) -> str:
        """The name of an entry of `tensors`."""
        which, m = divmod(tensor - 1, len(self.keys))
        return "query" if tensor == 0 else f"{('keys', 'values')[which]}[{m}]"


Break = tuple[str, object]


@dataclass(frozen=True)
class Constraint:
    """`breaks(call)` yields (argument, got) for each thing that is not as `expected` says."""

    name: str
    expected: str
    breaks: Callable[[Call], Iterator[Break]]

    def check(self, call: Call) -> None:
        for argument, got in self.breaks(call):
            raise ArgumentError(argument, expected=self.expected, got=got)


def _is_integer(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _shape(x: Tensor) -> str:
    return f"shape {tuple(x.shape)}"


def _not_tensors(call: Call) -> Iterator[Break]:
    for index, x in enumerate(call.tensors):
        if not isinstance(x, Tensor):
            yield call.name(index), type(x).__name__


def _layouts(call: Call) -> Iterator[Break]:
    for name, x in (
        *((call.name(index), x) for index, x in enumerate(call.tensors)),
        *((f"key_masks[{m}]", mask) for m, mask in enumerate(call.key_masks)),
    ):
        if isinstance(x, Tensor) and not is_dense(x):
            yield name, layout(x)


def is_dense(x: Tensor) -> bool:
    return x.layout == torch.strided and not x.is_nested


def layout(x: Tensor) -> str:
    return "a nested tensor" if x.is_nested else f"layout {x.layout}"


def _flat(call: Call) -> Iterator[Break]:
    for index, x in enumerate(call.tensors):
        if x.dim() < 2:
            yield call.name(index), _shape(x)


def _dtypes(call: Call) -> Iterator[Break]:
    for index, x in enumerate(call.tensors):
        if x.dtype not in DTYPES:
            yield call.name(index), x.dtype


def _mixed_dtypes(call: Call) -> Iterator[Break]:
    for index, x in enumerate(call.tensors):
        if x.dtype != call.query.dtype:
            yield call.name(index), f"{x.dtype} against query's {call.query.dtype}"


def _mixed_devices(call: Call) -> Iterator[Break]:
    for index, x in enumerate(call.tensors):
        if x.device != call.query.device:
            yield call.name(index), f"{x.device} against query's {call.query.device}"
    for m, mask in enumerate(call.key_masks):
        if isinstance(mask, Tensor) and mask.device != call.query.device:
            yield f"key_masks[{m}]", f"{mask.device} against query's {call.query.device}"


def _head_dims(call: Call) -> Iterator[Break]:
    d = call.query.shape[-1]
    if d == 0:
        yield "query", _shape(call.query)
    for m, key in enumerate(call.keys):
        if key.shape[-1] != d:
            yield f"keys[{m}]", f"{_shape(key)} against query's {_shape(call.query)}"


def _value_dims(call: Call) -> Iterator[Break]:
    if call.values[0].shape[-1] == 0:
        yield "values[0]", _shape(call.values[0])
    for m, value in enumerate(call.values):
        if value.shape[-1] != call.values[0].shape[-1]:
            yield f"values[{m}]", f"{_shape(value)} against values[0]'s {_shape(call.values[0])}"


def _lengths(call: Call) -> Iterator[Break]:
    for m, (key, value) in enumerate(zip(call.keys, call.values, strict=True)):
        if key.shape[-2] != value.shape[-2]:
            yield f"values[{m}]", f"{_shape(value)} against keys[{m}]'s {_shape(key)}"


def _gqa_heads(call: Call) -> Iterator[Break]:
    if not call.enable_gqa:
        return
    for index, x in enumerate(call.tensors):
        if x.dim() < 3:
            yield call.name(index), _shape(x)
            return
    heads, shared = call.query.shape[-3], call.keys[0].shape[-3]
    for index, x in enumerate(call.tensors):
        if index and (x.shape[-3] != shared or shared == 0 or heads % shared):
            yield call.name(index), f"{x.shape[-3]} heads against query's {heads} and keys[0]'s {shared}"


def _batches(call: Call) -> Iterator[Break]:
    leading = 3 if call.enable_gqa else 2
    shape = call.query.shape[:-leading]
    for index, x in enumerate(call.tensors):
        if x.shape[:-leading] == shape:
            continue
        try:
            shape = torch.broadcast_shapes(shape, x.shape[:-leading])
        except RuntimeError:
            yield call.name(index), f"{_shape(x)} against {tuple(shape)}, the leading dimensions so far"


def _causal_flag(call: Call) -> Iterator[Break]:
    for name in ("is_causal", "enable_gqa"):
        if not isinstance(getattr(call, name), bool):
            yield name, getattr(call, name)


def _offset(call: Call) -> Iterator[Break]:
    if not _is_integer(call.query_offset) or abs(call.query_offset) > LARGEST_OFFSET:
        yield "query_offset", call.query_offset


def _causal_lengths(call: Call) -> Iterator[Break]:
    if call.is_causal and call.query_offset == 0:
        for m, key in enumerate(call.keys):
            if key.shape[-2] != call.query.shape[-2]:
                yield f"keys[{m}]", f"length {key.shape[-2]} against query's {call.query.shape[-2]}"


def _windows(call: Call) -> Iterator[Break]:
    for m, window in enumerate(call.windows):
        if window is not None and not (_is_integer(window) and window >= 1):
            yield f"windows[{m}]", window


def _mask_types(call: Call) -> Iterator[Break]:
    for m, mask in enumerate(call.key_masks):
        if mask is not None and not (isinstance(mask, Tensor) and mask.dtype == torch.bool):
            yield f"key_masks[{m}]", mask.dtype if isinstance(mask, Tensor) else type(mask).__name__


def _mask_shapes(call: Call) -> Iterator[Break]:
    if all(mask is None for mask in call.key_masks):
        return
    leading = 3 if call.enable_gqa else 2
    batch = torch.broadcast_shapes(*(x.shape[:-leading] for x in call.tensors))
    if call.enable_gqa:
        batch = (*batch, call.query.shape[-3])
    for m, (mask, key) in enumerate(zip(call.key_masks, call.keys, strict=True)):
        if mask is None:
            continue
        fits = mask.dim() >= 1 and mask.shape[-1] == key.shape[-2] and mask.dim() - 1 <= len(batch)
        for size, room in zip(reversed(mask.shape[:-1]), reversed(batch), strict=False):
            fits = fits and size in (1, room)
        if not fits:
            yield f"key_masks[{m}]", f"{_shape(mask)} against keys[{m}]'s {_shape(key)} and batch {tuple(batch)}"


def _scale(call: Call) -> Iterator[Break]:
    if not isinstance(call.scale, Real) or isinstance(call.scale, bool) or not -math.inf < call.scale < math.inf:
        yield "scale", call.scale


CONSTRAINTS = (
    Constraint("tensors", "a tensor", _not_tensors),
    Constraint("layout", "a dense tensor", _layouts),
    Constraint("rank", "a tensor of shape (..., length, dimension)", _flat),
    Constraint("dtype", "float64, float32, bfloat16 or float16", _dtypes),
    Constraint("one dtype", "the dtype of query", _mixed_dtypes),
    Constraint("one device", "the device of query", _mixed_devices),
    Constraint("head dimension", "the last dimension to be query's, and at least 1", _head_dims),
    Constraint("value dimension", "the last dimension to be that of values[0], and at least 1", _value_dims),
    Constraint("one length a set", "as many values as keys in each set", _lengths),
    Constraint("flags", "True or False", _causal_flag),
    Constraint("offset", "an integer from -2^62 to 2^62", _offset),
    Constraint("gqa heads", "heads in dimension -3, one number for all sets, dividing query's", _gqa_heads),
    Constraint("broadcasting", "leading dimensions that broadcast together", _batches),
    Constraint("causal lengths", "the length of query (is_causal without a query_offset)", _causal_lengths),
    Constraint("windows", "None or an integer >= 1", _windows),
    Constraint("mask type", "None or a bool tensor, True where a key may be attended", _mask_types),
    Constraint("mask shape", "shape (..., length of the key set), broadcasting with the batch", _mask_shapes),
    Constraint("scale", "None or a finite number", _scale),
)


def _as_sets(argument: str, given: object, bare: type | tuple[type, ...]) -> tuple[object, ...]:
    if isinstance(given, bare):
        return (given,)
    if isinstance(given, (list, tuple)) and given:
        return tuple(given)
    got = "an empty sequence" if isinstance(given, (list, tuple)) else type(given).__name__
    raise ArgumentError(argument, expected="a tensor (order 2) or a list or tuple with one entry for each set", got=got)


def _counted(argument: str, given: object, bare: type | tuple[type, ...], count: int) -> tuple[object, ...]:
    sets = _as_sets(argument, given, bare)
    if len(sets) != count:
        raise ArgumentError(argument, expected=f"{count}, one for each key set", got=str(len(sets)))
    return sets


def check_call(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    windows: int | Sequence[int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Call:
    """The call, with every constraint checked."""
    if isinstance(keys, Tensor) and isinstance(query, Tensor) and keys.dim() > max(query.dim(), 2):
        raise ArgumentError(
            "keys",
            expected="a list of key sets, or one tensor (order 2) with no more dimensions than query",
            got=f"one tensor of {_shape(keys)} for a query of {_shape(query)}",
        )
    key_sets = _as_sets("keys", keys, Tensor)
    count = len(key_sets)
    call = Call(
        query,
        key_sets,  # type: ignore[arg-type]  # the constraints below check the entries
        _counted("values", values, Tensor, count),  # type: ignore[arg-type]
        is_causal,
        query_offset,
        (None,) * count if key_masks is None else _counted("key_masks", key_masks, Tensor, count),  # type: ignore[arg-type]
        (None,) * count if windows is None else _counted("windows", windows, int, count),  # type: ignore[arg-type]
        math.nan if scale is None else scale,
        enable_gqa,
    )
    for constraint in CONSTRAINTS[:4]:
        constraint.check(call)
    if scale is None:
        call = replace(call, scale=1 / max(call.query.shape[-1], 1))
    for constraint in CONSTRAINTS[4:]:
        constraint.check(call)
    return call
