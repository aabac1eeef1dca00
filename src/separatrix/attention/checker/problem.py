r"""The tokens of each set that the chosen queries of a call attend to, according to positions and masks, as exact
numbers.

Query i of a call attends every tuple (j_1, ..., j_{k-1}) whose entries are allowed one by one, so that all its tuples
are a product of k - 1 sets of tokens. Set m allows j if its mask does, if j <= i + offset (causal, or with a window),
and if j > i + offset - w (with a window of w).

This module shares no code with the operators that it checks: it implements the semantics of their arguments
independently. The module also holds the results of the call, query by query, and chooses the queries to recompute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from separatrix.errors import ArgumentError

Floats = NDArray[np.float64]
Span = tuple[int, int]
Entry = TypeVar("Entry")

TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Head:
    """The key and value sets of a head, (n_m, d) and (n_m, d_v), and their masks, (n_m,), True for unmasked tokens."""

    keys: tuple[Floats, ...]
    values: tuple[Floats, ...]
    seen: tuple[NDArray[np.bool_], ...]
    scale: float

    def attended(self, spans: Sequence[Span]) -> tuple[list[Floats], list[Floats]]:
        """The keys and values that a query with these spans attends to, for each set."""
        keys, values = [], []
        for m, (start, stop) in enumerate(spans):
            seen = self.seen[m][start:stop]
            keys.append(finite(f"keys[{m}]", self.keys[m][start:stop][seen]))
            values.append(finite(f"values[{m}]", self.values[m][start:stop][seen]))
        return keys, values

    def counts(self, spans: Sequence[Span]) -> list[int]:
        """The number of tokens of each set that a query with these spans attends to."""
        return [int(seen[start:stop].sum()) for seen, (start, stop) in zip(self.seen, spans, strict=True)]


@dataclass(frozen=True)
class Problem:
    """The arguments of a call, checked; `batch` are the leading dimensions of its output."""

    query: Tensor
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    masks: tuple[Tensor | None, ...]
    windows: tuple[int | None, ...]
    is_causal: bool
    offset: int
    scale: float
    grouped: bool
    batch: tuple[int, ...]

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The expected shape of the output of the call."""
        return (*self.batch, self.query.shape[-2], self.values[0].shape[-1])

    def vector(self, at: tuple[int, ...]) -> Floats:
        """The query at an index of the batch and a position."""
        return finite("query", exact_floats(self.query.expand(*self.batch, *self.query.shape[-2:])[at]))

    def spans(self, position: int) -> tuple[Span, ...]:
        """For each set, the range of tokens that the query at a position may attend to."""
        spans = []
        for key, window in zip(self.keys, self.windows, strict=True):
            length, here = key.shape[-2], position + self.offset
            stop = min(length, max(here + 1, 0)) if self.is_causal or window is not None else length
            start = 0 if window is None else min(max(here - window + 1, 0), stop)
            spans.append((start, stop))
        return tuple(spans)

    def storage(self, batch: tuple[int, ...]) -> tuple[int, ...]:
        """The memory address of the sets of a head: heads that share them are checked together."""
        masks = [self._mask(m, batch) for m in range(len(self.keys))]
        views = [self.view(x, batch) for x in (*self.keys, *self.values)]
        return tuple(0 if x is None else x.data_ptr() for x in (*views, *masks))

    def head(self, batch: tuple[int, ...]) -> Head:
        """The sets of the head at an index of the batch; masked entries are replaced by zero."""
        keys, values, seen = [], [], []
        for m, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            mask = self._mask(m, batch)
            unmasked = np.ones(key.shape[-2], dtype=bool) if mask is None else mask.cpu().numpy()
            keys.append(np.where(unmasked[:, None], exact_floats(self.view(key, batch)), 0.0))
            values.append(np.where(unmasked[:, None], exact_floats(self.view(value, batch)), 0.0))
            seen.append(unmasked)
        return Head(tuple(keys), tuple(values), tuple(seen), self.scale)

    def view(self, x: Tensor, batch: tuple[int, ...]) -> Tensor:
        """The rows of a key or value set that belong to the head at an index of the batch."""
        if not self.grouped:
            return x.expand(*self.batch, *x.shape[-2:])[batch]
        group = self.query.shape[-3] // x.shape[-3]
        return x.expand(*self.batch[:-1], *x.shape[-3:])[(*batch[:-1], batch[-1] // group)]

    def _mask(self, m: int, batch: tuple[int, ...]) -> Tensor | None:
        mask = self.masks[m]
        return None if mask is None else mask.expand(*self.batch, mask.shape[-1])[batch]


@contextmanager
def subnormal_numbers() -> Iterator[None]:
    """Disable flushing of subnormal numbers (`torch.set_flush_denormal`) until the end of the block."""
    smallest = math.ulp(0.0)
    flushed = smallest + smallest == 0.0
    if flushed:
        torch.set_flush_denormal(False)
    try:
        yield
    finally:
        if flushed:
            torch.set_flush_denormal(True)


def exact_floats(x: Tensor) -> Floats:
    """Convert a tensor of any supported dtype to float64, exactly.

    NumPy does the conversion, because PyTorch's threads may flush subnormal numbers to zero.
    """
    x = x.detach().cpu().contiguous()
    if x.dtype != torch.bfloat16:
        return x.numpy().astype(np.float64)
    bits = x.view(torch.int16).numpy().astype(np.int32) << 16  # a bfloat16 is the upper half of a float32
    return bits.view(np.float32).astype(np.float64)


def as_problem(
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
) -> Problem:
    """The arguments of `tensor_attention`, with the checks that the recomputation relies on."""
    key_sets = _sets("keys", keys, Tensor)
    value_sets = _sets("values", values, Tensor)
    masks: tuple[Tensor | None, ...] = (None,) * len(key_sets)
    if key_masks is not None:
        masks = (key_masks,) * len(key_sets) if isinstance(key_masks, Tensor) else _sets("key_masks", key_masks, Tensor)
    spans: tuple[int | None, ...] = (None,) * len(key_sets)
    if windows is not None:
        spans = (windows,) * len(key_sets) if isinstance(windows, int) else _sets("windows", windows, int)
    for name, sets in (("values", value_sets), ("key_masks", masks), ("windows", spans)):
        if len(sets) != len(key_sets):
            raise ArgumentError(name, expected=f"{len(key_sets)} entries, one for each key set", got=str(len(sets)))
    named = [("query", query), *((f"keys[{m}]", x) for m, x in enumerate(key_sets))]
    named += [(f"values[{m}]", x) for m, x in enumerate(value_sets)]
    least = 3 if enable_gqa else 2
    for name, x in named:
        if not isinstance(x, Tensor) or x.dtype not in TYPES or x.dim() < least:
            got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ArgumentError(name, expected=f"a tensor of floats with {least} or more dimensions", got=got)
    if query.shape[-1] == 0:
        raise ArgumentError("query", expected="a last dimension of 1 or more", got=f"shape {tuple(query.shape)}")
    for m, (key, value) in enumerate(zip(key_sets, value_sets, strict=True)):
        if key.shape[-1] != query.shape[-1]:
            expected = f"the last dimension of query, {query.shape[-1]}"
            raise ArgumentError(f"keys[{m}]", expected=expected, got=f"shape {tuple(key.shape)}")
        if value.shape[-2] != key.shape[-2] or value.shape[-1] != value_sets[0].shape[-1]:
            expected = f"{key.shape[-2]} values of dimension {value_sets[0].shape[-1]}"
            raise ArgumentError(f"values[{m}]", expected=expected, got=f"shape {tuple(value.shape)}")
        mask, window = masks[m], spans[m]
        if mask is not None and (mask.dtype != torch.bool or mask.dim() == 0 or mask.shape[-1] != key.shape[-2]):
            expected = f"a bool tensor (..., {key.shape[-2]}), True where a key may be attended"
            raise ArgumentError(f"key_masks[{m}]", expected=expected, got=f"{mask.dtype} of {tuple(mask.shape)}")
        if window is not None and window < 1:
            raise ArgumentError(f"windows[{m}]", expected="an integer >= 1", got=repr(window))
    if scale is not None and not (isinstance(scale, Real) and math.isfinite(scale)):
        raise ArgumentError("scale", expected="None or a finite number", got=repr(scale))
    problem = Problem(
        query,
        key_sets,
        value_sets,
        masks,
        spans,
        is_causal,
        query_offset,
        1 / query.shape[-1] if scale is None else float(scale),
        enable_gqa,
        _batch([x.shape[:-least] for _, x in named], query.shape[-3:-2] if enable_gqa else ()),
    )
    for m, mask in enumerate(masks):
        lead = () if mask is None else tuple(mask.shape[:-1])
        if len(lead) > len(problem.batch) or any(
            size not in (1, room) for size, room in zip(reversed(lead), reversed(problem.batch), strict=False)
        ):
            expected = f"leading dimensions that broadcast to {problem.batch}"
            raise ArgumentError(f"key_masks[{m}]", expected=expected, got=str(lead))
    for name, x in named[1:] if enable_gqa else ():
        if x.shape[-3] != key_sets[0].shape[-3] or x.shape[-3] == 0 or query.shape[-3] % x.shape[-3]:
            raise ArgumentError(name, expected="heads in dimension -3 that divide query's", got=f"{tuple(x.shape)}")
    return problem


def _sets(name: str, given: object, bare: type[Entry]) -> tuple[Entry, ...]:
    if isinstance(given, bare):
        return (given,)
    if not isinstance(given, (list, tuple)) or not given:
        raise ArgumentError(name, expected="one entry for each set, in a list or tuple", got=type(given).__name__)
    return tuple(given)


def _batch(shapes: Sequence[Sequence[int]], heads: Sequence[int]) -> tuple[int, ...]:
    try:
        return (*torch.broadcast_shapes(*shapes), *heads)
    except RuntimeError:
        got = ", ".join(str(tuple(shape)) for shape in shapes)
        raise ArgumentError("query, keys, values", expected="leading dimensions that broadcast", got=got) from None


def finite(name: str, x: Floats) -> Floats:
    """Return the keys and values that a chosen query attends to; raise an error unless they are finite."""
    if not np.isfinite(x).all():
        raise ArgumentError(name, expected="finite entries wherever they are attended", got="NaN or infinity")
    return x


@dataclass(frozen=True)
class CallResults:
    """The results of a call: outputs (N, d_v), bounds (N,) and log-sum-exps (N,) or None, over all N queries."""

    shape: tuple[int, ...]
    output: Floats
    bounds: Floats
    lse: Floats | None
    lse_bound: float

    @staticmethod
    def of(problem: Problem, output: Tensor, bounds: Tensor, lse: Tensor | None, lse_bound: float) -> CallResults:
        check_shapes(problem, output, bounds, lse)
        shape = problem.output_shape[:-1]
        wide = np.broadcast_to(exact_floats(bounds), shape)
        flat = exact_floats(output).reshape(math.prod(shape), output.shape[-1])
        return CallResults(shape, flat, wide.ravel(), None if lse is None else exact_floats(lse).ravel(), lse_bound)

    def choose(self, count: int) -> list[int]:
        """The queries to recompute, in order."""
        total = len(self.bounds)
        if total <= count:
            return list(range(total))
        wrong = np.flatnonzero(self._suspicious())[:1].tolist()
        first = [*wrong, int(self.bounds.argmax()), int(self.bounds.argmin()), 0, total - 1]
        chosen = list(dict.fromkeys(first))[:count]
        further = [i for i in _spread(total, count) if i not in chosen]
        return sorted([*chosen, *(further[i] for i in _spread(len(further), count - len(chosen)))])

    def _suspicious(self) -> NDArray[np.bool_]:
        """The queries (N,) whose results are impossible for any input, as far as can be told without recomputing them.

        Outputs must be finite. A log-sum-exp must be a number, or -inf if the query attends no tuple and its output is
        zero.
        """
        lse = np.zeros(len(self.output)) if self.lse is None else self.lse
        nothing = np.isneginf(lse) & (self.output == 0).all(1)
        suspicious: NDArray[np.bool_] = ~(np.isfinite(self.output).all(1) & (np.isfinite(lse) | nothing))
        return suspicious

    def index(self, flat: int) -> tuple[int, ...]:
        """The index of a query: its batch index, then its position."""
        return tuple(int(i) for i in np.unravel_index(flat, self.shape))


def check_shapes(problem: Problem, output: Tensor, bounds: Tensor, lse: Tensor | None) -> None:
    """Raise an `ArgumentError` unless the results have the shapes of the call."""
    shape = problem.output_shape[:-1]
    if tuple(output.shape) != problem.output_shape:
        expected = f"an output of shape {problem.output_shape}, for the arguments given"
        raise ArgumentError("result", expected=expected, got=f"shape {tuple(output.shape)}")
    if lse is not None and tuple(lse.shape) != shape:
        raise ArgumentError("result", expected=f"a log-sum-exp of shape {shape}", got=f"shape {tuple(lse.shape)}")
    try:
        bounds.expand(shape)
    except RuntimeError:
        expected = f"a certificate for each query, of shape {shape}"
        raise ArgumentError("result", expected=expected, got=f"shape {tuple(bounds.shape)}") from None


def _spread(total: int, count: int) -> list[int]:
    """`count` integers below `total`, spaced as evenly as possible."""
    numbers: list[int] = np.linspace(0, total - 1, count).round().astype(int).tolist()
    return numbers
