"""The constraints on the arguments of the attention operators, each declared once, and the checked arguments.

`check_tensor` checks a single tensor, here and for the tensor arguments of other modules. Constraints between arguments
are data: the argument, what is expected, and a function that finds violations. All messages are built from these data,
and the tests violate each constraint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import torch
from torch import Tensor

from separatrix.checks import is_number, is_whole
from separatrix.errors import ArgumentError

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
LARGEST_OFFSET = 2**62
"""The largest offset: positions, which are offset + index, then fit into 64-bit integers."""


class CallOptions(TypedDict, total=False):
    """The optional arguments of `tensor_attention`, for functions that forward them.

    Such a function takes ``**options: Unpack[CallOptions]``, so that type checkers and editors know their names and
    types. The defaults are those of `check_arguments`.
    """

    is_causal: bool
    query_offset: int
    key_masks: Tensor | Sequence[Tensor | None] | None
    windows: int | Sequence[int | None] | None
    scale: float | None
    enable_gqa: bool


@dataclass(frozen=True)
class CallArguments:
    """The arguments of a call as they were given; keys, values, masks and windows have one entry for each key set."""

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
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.query, *self.keys, *self.values)

    def name(self, tensor: int) -> str:
        """The name of an entry of `tensors`."""
        return tensor_name(tensor, len(self.keys))


def tensor_name(tensor: int, sets: int) -> str:
    """The name of a tensor by its index in a call with `sets` key sets: query, then keys, then values."""
    which, m = divmod(tensor - 1, sets)
    return "query" if tensor == 0 else f"{('keys', 'values')[which]}[{m}]"


Break = tuple[str, object]


@dataclass(frozen=True)
class Constraint:
    """`breaks(given)` yields (argument, got) for each violation of `expected`."""

    name: str
    expected: str
    breaks: Callable[[CallArguments], Iterator[Break]]

    def check(self, given: CallArguments) -> None:
        for argument, got in self.breaks(given):
            raise ArgumentError(argument, expected=self.expected, got=got)


def _shape(x: Tensor) -> str:
    return f"shape {tuple(x.shape)}"


def check_tensor(
    argument: str,
    x: Tensor,
    *,
    of: str = "query",
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    shape: Sequence[int | str] = ("...", "length", "dimension"),
) -> None:
    """Raise an `ArgumentError` unless x is a dense tensor of the expected shape, dtype and device.

    Args:
        argument: The name of the argument, for the message.
        x: The argument, of any type.
        of: The owner of the expected dtype and device, for the message: "query", "state" or "layer".
        dtype: The expected dtype; None for any of `DTYPES`.
        device: The expected device; None for any.
        shape: The expected sizes; a string is a size of any value, and "..." at the front stands for any leading
            dimensions.

    Example:
        >>> check_tensor("key", torch.ones(2, 3), of="state", dtype=torch.float32, shape=("length", 4))
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: key: expected shape (length, 4), got shape (2, 3).
    """
    if not isinstance(x, Tensor):
        raise ArgumentError(argument, expected="a tensor", got=type(x).__name__)
    if not is_dense(x):
        raise ArgumentError(argument, expected="a dense tensor", got=layout(x))
    sizes = shape[1:] if shape[0] == "..." else shape
    own = x.shape[-len(sizes) :] if shape[0] == "..." else x.shape
    if len(own) != len(sizes) or any(isinstance(size, int) and size != n for size, n in zip(sizes, own, strict=True)):
        raise ArgumentError(argument, expected=f"shape ({', '.join(map(str, shape))})", got=_shape(x))
    if dtype is None and x.dtype not in DTYPES:
        raise ArgumentError(argument, expected="float64, float32, bfloat16 or float16", got=x.dtype)
    if dtype is not None and x.dtype != dtype:
        raise ArgumentError(argument, expected=f"the {of}'s dtype {dtype}", got=x.dtype)
    if device is not None and x.device != device:
        raise ArgumentError(argument, expected=f"the {of}'s device {device}", got=str(x.device))


def is_dense(x: Tensor) -> bool:
    return x.layout == torch.strided and not x.is_nested


def layout(x: Tensor) -> str:
    return "a nested tensor" if x.is_nested else f"layout {x.layout}"


def _head_dims(given: CallArguments) -> Iterator[Break]:
    d = given.query.shape[-1]
    if d == 0:
        yield "query", _shape(given.query)
    for m, key in enumerate(given.keys):
        if key.shape[-1] != d:
            yield f"keys[{m}]", f"{_shape(key)} against query's {_shape(given.query)}"


def _value_dims(given: CallArguments) -> Iterator[Break]:
    if given.values[0].shape[-1] == 0:
        yield "values[0]", _shape(given.values[0])
    for m, value in enumerate(given.values):
        if value.shape[-1] != given.values[0].shape[-1]:
            yield f"values[{m}]", f"{_shape(value)} against values[0]'s {_shape(given.values[0])}"


def _lengths(given: CallArguments) -> Iterator[Break]:
    for m, (key, value) in enumerate(zip(given.keys, given.values, strict=True)):
        if key.shape[-2] != value.shape[-2]:
            yield f"values[{m}]", f"{_shape(value)} against keys[{m}]'s {_shape(key)}"


def _gqa_heads(given: CallArguments) -> Iterator[Break]:
    if not given.enable_gqa:
        return
    for index, x in enumerate(given.tensors):
        if x.dim() < 3:
            yield given.name(index), _shape(x)
            return
    heads, shared = given.query.shape[-3], given.keys[0].shape[-3]
    for index, x in enumerate(given.tensors):
        if index and (x.shape[-3] != shared or shared == 0 or heads % shared):
            yield given.name(index), f"{x.shape[-3]} heads against query's {heads} and keys[0]'s {shared}"


def _batches(given: CallArguments) -> Iterator[Break]:
    leading = 3 if given.enable_gqa else 2
    shape = given.query.shape[:-leading]
    for index, x in enumerate(given.tensors):
        if x.shape[:-leading] == shape:
            continue
        try:
            shape = torch.broadcast_shapes(shape, x.shape[:-leading])
        except RuntimeError:
            yield given.name(index), f"{_shape(x)} against {tuple(shape)}, the leading dimensions so far"


def _causal_flag(given: CallArguments) -> Iterator[Break]:
    for name in ("is_causal", "enable_gqa"):
        if not isinstance(getattr(given, name), bool):
            yield name, repr(getattr(given, name))


def _offset(given: CallArguments) -> Iterator[Break]:
    if not is_whole(given.query_offset, low=-LARGEST_OFFSET, high=LARGEST_OFFSET):
        yield "query_offset", repr(given.query_offset)


def _causal_lengths(given: CallArguments) -> Iterator[Break]:
    if given.is_causal and given.query_offset == 0:
        for m, key in enumerate(given.keys):
            if key.shape[-2] != given.query.shape[-2]:
                yield f"keys[{m}]", f"length {key.shape[-2]} against query's {given.query.shape[-2]}"


def _windows(given: CallArguments) -> Iterator[Break]:
    for m, window in enumerate(given.windows):
        if window is not None and not is_whole(window, low=1):
            yield f"windows[{m}]", repr(window)


def _mask_layouts(given: CallArguments) -> Iterator[Break]:
    for m, mask in enumerate(given.key_masks):
        if isinstance(mask, Tensor) and not is_dense(mask):
            yield f"key_masks[{m}]", layout(mask)


def _mask_devices(given: CallArguments) -> Iterator[Break]:
    for m, mask in enumerate(given.key_masks):
        if isinstance(mask, Tensor) and mask.device != given.query.device:
            yield f"key_masks[{m}]", f"{mask.device} against query's {given.query.device}"


def _mask_types(given: CallArguments) -> Iterator[Break]:
    for m, mask in enumerate(given.key_masks):
        if mask is not None and not (isinstance(mask, Tensor) and mask.dtype == torch.bool):
            yield f"key_masks[{m}]", mask.dtype if isinstance(mask, Tensor) else type(mask).__name__


def _mask_shapes(given: CallArguments) -> Iterator[Break]:
    if all(mask is None for mask in given.key_masks):
        return
    leading = 3 if given.enable_gqa else 2
    batch = torch.broadcast_shapes(*(x.shape[:-leading] for x in given.tensors))
    if given.enable_gqa:
        batch = (*batch, given.query.shape[-3])
    for m, (mask, key) in enumerate(zip(given.key_masks, given.keys, strict=True)):
        if mask is None:
            continue
        fits = mask.dim() >= 1 and mask.shape[-1] == key.shape[-2] and mask.dim() - 1 <= len(batch)
        for size, room in zip(reversed(mask.shape[:-1]), reversed(batch), strict=False):
            fits = fits and size in (1, room)
        if not fits:
            yield f"key_masks[{m}]", f"{_shape(mask)} against keys[{m}]'s {_shape(key)} and batch {tuple(batch)}"


def _scale(given: CallArguments) -> Iterator[Break]:
    if not is_number(given.scale) or not -math.inf < given.scale < math.inf:
        yield "scale", repr(given.scale)


CONSTRAINTS = (
    Constraint("head dimension", "the last dimension to be query's, and at least 1", _head_dims),
    Constraint("value dimension", "the last dimension to be that of values[0], and at least 1", _value_dims),
    Constraint("one length per set", "as many values as keys in each set", _lengths),
    Constraint("flags", "True or False", _causal_flag),
    Constraint("offset", "an integer from -2^62 to 2^62", _offset),
    Constraint("gqa heads", "heads in dimension -3, one number for all sets, dividing query's", _gqa_heads),
    Constraint("broadcasting", "leading dimensions that broadcast together", _batches),
    Constraint("causal lengths", "the length of query (is_causal without a query_offset)", _causal_lengths),
    Constraint("windows", "None or an integer >= 1", _windows),
    Constraint("mask layout", "a dense tensor", _mask_layouts),
    Constraint("mask device", "the device of query", _mask_devices),
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
    entry = "a tensor (order 2)" if bare is Tensor else "one value for all sets"
    raise ArgumentError(argument, expected=f"{entry} or a list or tuple with one entry for each set", got=got)


def _counted(argument: str, given: object, bare: type | tuple[type, ...], count: int) -> tuple[object, ...]:
    sets = _as_sets(argument, given, bare)
    if len(sets) != count:
        raise ArgumentError(argument, expected=f"{count}, one for each key set", got=str(len(sets)))
    return sets


def _for_each_set(argument: str, given: object, bare: type, count: int) -> tuple[object, ...]:
    """An option for each key set; a single entry, or None, applies to all of them."""
    return (given,) * count if given is None or isinstance(given, bare) else _counted(argument, given, bare, count)


def check_arguments(
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
) -> CallArguments:
    """The arguments of a call, after all constraints were checked."""
    if isinstance(keys, Tensor) and isinstance(query, Tensor) and keys.dim() > max(query.dim(), 2):
        raise ArgumentError(
            "keys",
            expected="a list of key sets, or one tensor (order 2) with no more dimensions than query",
            got=f"one tensor of {_shape(keys)} for a query of {_shape(query)}",
        )
    key_sets = _as_sets("keys", keys, Tensor)
    count = len(key_sets)
    given = CallArguments(
        query,
        key_sets,  # type: ignore[arg-type]  # the constraints below check the entries
        _counted("values", values, Tensor, count),  # type: ignore[arg-type]
        is_causal,
        query_offset,
        _for_each_set("key_masks", key_masks, Tensor, count),  # type: ignore[arg-type]
        _for_each_set("windows", windows, int, count),  # type: ignore[arg-type]
        math.nan if scale is None else scale,
        enable_gqa,
    )
    check_tensor("query", query)
    for index, x in enumerate(given.tensors[1:], 1):
        check_tensor(given.name(index), x, dtype=query.dtype, device=query.device)
    if scale is None:
        given = replace(given, scale=1 / max(query.shape[-1], 1))
    for constraint in CONSTRAINTS:
        constraint.check(given)
    return given
