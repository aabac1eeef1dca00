"""Properties of the inputs of a call: whether entries can be read, their extremes, norms of tokens, value ranges.

Plans and certificates depend on them. The kernels in C++ read a tensor once (csrc/entries.hpp); plain PyTorch reads
it piece by piece.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from separatrix.attention.arithmetic.device_reads import number, numbers, truth
from separatrix.attention.call import Call
from separatrix.attention.dispatch.registration import has_tangent, no_forward_mode
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.native import Norm
from separatrix.native_tensors import HALF_TYPES, TYPES, done, kernels_for, tokens_call

SLACK = 1 + 2.0**-30
"""The factor that covers the rounding of bounds that are computed in float64: see `near_linear.certificate`."""


def check_readable(call: Call) -> None:
    """Raise an error if the tensors of a call have no entries, or if their entries may not be read."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise SeparatrixError(
            "tolerance: attention with a certificate reads the tensors' entries to choose an algorithm, which "
            "torch.func (vmap, grad, jvp) does not allow. Give a batch as leading dimensions and take gradients with "
            "torch.autograd, or leave the tolerance out."
        )
    if has_tangent(call.tensors):
        no_forward_mode()
    for index, x in enumerate(call.tensors):
        if x.device.type == "meta" or isinstance(x, FakeTensor):
            raise SeparatrixError(
                "tolerance: attention with a certificate reads the tensors' entries to choose an algorithm, and "
                f"{call.name(index)} has no entries: it is on the device 'meta', or a fake tensor (torch.export). "
                "Leave the tolerance out, or use a layer with a bound, which is planned ahead "
                "(nn.TensorAttention)."
            )


class TokenNorms(NamedTuple):
    """Norms of the tokens of a set, in float64.

    Attributes:
        largest: The largest sum of powers of a head, sum_l |factors_l x_l|^k, (H,).
        powers: The sum of powers for each token, (H, L), if requested.
        weighted: sum_l weights_l |factors_l x_l|, (H, L), if requested.
    """

    largest: Tensor
    powers: Tensor | None
    weighted: Tensor | None


Piece = tuple[int, int]
_ENTRIES = 1 << 20
"""The number of entries of a tensor that are reduced at a time: enough for all threads."""


def pieces(length: int, size: int) -> Iterator[Piece]:
    """Consecutive ranges of at most `size` integers that cover 0, ..., length - 1."""
    for start in range(0, length, size):
        yield start, min(start + size, length)


def power(x: Tensor, n: int) -> Tensor:
    """x^n by repeated multiplication, which is many times faster than `pow`."""
    if n == 0:
        return torch.ones_like(x)
    product = x
    for _ in range(n - 1):
        product = product * x
    return product


def product_of(factors: Sequence[Tensor]) -> Tensor:
    """The product of one or more tensors."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def largest_bound(*bounds: float) -> float:
    """The largest bound; NaN, which satisfies no tolerance, if one of them is NaN.

    >>> largest_bound(1.0, 2.0), largest_bound(1.0, math.nan)
    (2.0, nan)
    """
    return math.nan if any(map(math.isnan, bounds)) else max(bounds)


def product_without(m: int, factors: Sequence[Tensor]) -> Tensor:
    """The product of all factors except the m-th; ones if there is no other."""
    return product_of([torch.ones_like(factors[m]), *factors[:m], *factors[m + 1 :]])


def extremes(sets: Sequence[Tensor], masks: Sequence[Tensor | None]) -> Tensor:
    """The extremes (2, sets, H, d) over the unmasked tokens of each set (H, L_m, d), in float64: least first.

    An entry that is NaN makes them NaN; if all tokens are masked, they are +inf and -inf.
    """
    heads, _, d = sets[0].shape
    ends = sets[0].new_empty(2, len(sets), heads, d, dtype=torch.float64)
    library = _library(*sets)
    for m, (x, mask) in enumerate(zip(sets, masks, strict=True)):
        if library is None:
            ends[0, m], ends[1, m] = _plain_extremes(x, mask)
            continue
        least, size = ends.data_ptr() + 8 * m * heads * d, 8 * len(sets) * heads * d
        places = ctypes.c_void_p(least), ctypes.c_void_p(least + size)
        done(library.separatrix_extremes(ctypes.byref(tokens_call(x, mask)), *places))
    return ends


def _plain_extremes(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The extremes (H, d) of the tokens of a set."""
    heads, length, d = x.shape
    least = x.new_full((heads, d), math.inf, dtype=torch.float64)
    most = -least
    whole = length - length % 64
    piece = max(_ENTRIES // max(64 * heads * d, 1), 1) * 64
    parts = [*pieces(whole, piece), *([(whole, length)] if whole < length else [])]
    for start, stop in parts:
        part = x[:, start:stop]
        low = high = part
        if mask is not None:
            hidden = ~mask[:, start:stop].unsqueeze(-1)
            low, high = part.masked_fill(hidden, math.inf), part.masked_fill(hidden, -math.inf)
        if (stop - start) % 64 == 0:  # 64 tokens side by side, because a reduction over long rows is many times faster
            low, high = (y.reshape(heads, -1, 64 * d) for y in (low, high))
        low, high = (y.reshape(heads, -1, d) for y in (low.amin(1), high.amax(1)))
        least, most = torch.minimum(least, low.amin(1)), torch.maximum(most, high.amax(1))
    return least, most


def finite_extremes(names: Sequence[str], sets: Sequence[Tensor], masks: Sequence[Tensor | None]) -> Tensor:
    """`extremes` of one or more sets of tokens, (2, sets, H, d): least first; 0 where there are no tokens.

    One tensor holds the extremes of all sets, so that they are tested for NaN and infinity at once: the planning time
    of a short call is proportional to the number of operations.

    The sets have tokens (H, L_m, d) and a mask (H, L_m) or None; errors call them by `names`.

    Raises:
        ArgumentError: If an entry of a set that may be attended is NaN or infinite.
    """
    ends = extremes(sets, masks)
    if any([mask is not None or not x.shape[1] for x, mask in zip(sets, masks, strict=True)]):
        ends = ends.masked_fill(ends[0] > ends[1], 0.0)
    if not truth(torch.isfinite(ends).all()):
        finite = numbers(torch.isfinite(ends).transpose(0, 1).flatten(1).all(1))
        raise ArgumentError(
            names[finite.index(False)],
            expected="finite entries (an error bound must hold)",
            got="NaN or infinity",
            hypothesis="the bounded entries of Definition 1.2 (Alman and Song)",
        )
    return ends


def largest_magnitudes(name: str, x: Tensor, mask: Tensor | None) -> Tensor:
    """max |x| over the unmasked tokens, (H, d) in float64; an error if an entry is NaN or infinite."""
    return finite_extremes([name], [x], [mask]).abs().amax((0, 1))


@dataclass(frozen=True)
class InputBounds:
    """Bounds on the entries of a call: `ends` are the extremes of query and keys, (2, order, H, d), as
    `finite_extremes` returns them, and `values` is the range of the products of values.
    """

    ends: Tensor
    values: ValueRange

    @cached_property
    def largest(self) -> Tensor:
        """The largest magnitudes of the query and of each key set, (order, H, d)."""
        return self.ends.abs().amax(0)


def input_bounds(call: Call) -> InputBounds:
    """The bounds on the entries of a call, which reads each of its tensors once; an error for NaN or infinity."""
    names = ["query", *(f"keys[{m}]" for m in range(len(call.keys)))]
    ends = finite_extremes(names, (call.query, *call.keys), (None, *call.mask_of_each))
    return InputBounds(ends, value_range(call.values, call.masks))


def token_norms(
    x: Tensor, power: int, factors: Tensor, mask: Tensor | None = None, weights: Tensor | None = None
) -> TokenNorms | None:
    """Norms of tokens (H, L, d) by the kernels, rounded as csrc/entries.hpp says; None if the kernels do not support
    the tokens.

    `power` is the exponent k of the sums; the columns are first multiplied by `factors`, (H, d) in float64. Without the
    weights of `weighted`, (H, d) in float64, only `largest` is computed. `mask` (H, L) is True for the tokens that may
    be attended.
    """
    library = _library(x)
    if library is None:
        return None
    factors = factors.contiguous()
    largest = factors.new_empty(x.shape[0])
    norm = Norm(power=power, factors=factors.data_ptr(), largest=largest.data_ptr())
    powers = weighted = None
    if weights is not None:
        weights = weights.contiguous()
        powers, weighted = (factors.new_empty(x.shape[:2]) for _ in range(2))
        norm.weights, norm.powers, norm.weighted = (tensor.data_ptr() for tensor in (weights, powers, weighted))
    done(library.separatrix_norms(ctypes.byref(tokens_call(x, mask)), ctypes.byref(norm)))
    return TokenNorms(largest, powers, weighted)


_ANY_TYPE = TYPES | HALF_TYPES


def is_sound(x: Tensor) -> bool:
    """Whether a tensor (B, H, L, d) is finite, and has no zero in its first column.

    If all entries are finite but their sum overflows, plain PyTorch returns False and the kernels return True.
    """
    library, number_of_type = kernels_for(x), _ANY_TYPE.get(x.dtype)
    if library is not None and number_of_type is not None and (x.is_contiguous() or x.transpose(1, 2).is_contiguous()):
        columns = x.shape[3]
        return bool(library.separatrix_sound(number_of_type, x.numel() // columns, columns, x.data_ptr()))
    x = x.detach() if x.requires_grad else x
    total = x.sum(dtype=torch.float32 if x.dtype == torch.float16 else None)
    first = x.select(-1, 0)
    return math.isfinite(number(total)) and number(torch.count_nonzero(first)) == first.numel()


def _library(*sets: Tensor) -> ctypes.PyDLL | None:
    """The kernels, if they support the strides of tensors (H, L, d); otherwise None."""
    for x in sets:
        if x.dtype not in TYPES or (x.stride(2) != 1 and x.shape[2] > 1):
            return None
    return kernels_for(*sets)


SMALLEST_SCALE = {torch.float32: 2.0**-60, torch.float64: 2.0**-900}
"""For values of at least this magnitude, underflow is below 2^-60 of any rounding error, even over 2^30 tokens."""


@dataclass(frozen=True)
class ValueRange:
    """For each head and column: the largest |v_t| and max v_t - min v_t over products of the sets' values, (H, d_v).

    `ends` (2, sets, H, d_v) are the least and the largest values of each set.

    `low` and `high` are logarithms to base 2. The product of the nonzero largest magnitudes of any value sets, each of
    any head, is at least 2^low, and the sum of such products over tuples at most 2^high.
    """

    magnitude: Tensor
    width: Tensor
    ends: Tensor
    low: float
    high: float

    @cached_property
    def widest(self) -> Tensor:
        """The largest width of a head's columns, (H, 1)."""
        return self.width.amax(1, keepdim=True)

    @cached_property
    def largest(self) -> Tensor:
        """The largest magnitude in a head's columns, (H, 1)."""
        return self.magnitude.amax(1, keepdim=True)

    @cached_property
    def others(self) -> tuple[Tensor, ...]:
        """For each set the largest product of the magnitudes of all other value sets, over the columns, (H,)."""
        magnitudes = self.ends.abs().amax(0).unbind(0)
        return tuple(product_without(m, magnitudes).amax(1) * SLACK for m in range(len(magnitudes)))

    def in_range(self, dtype: torch.dtype) -> bool:
        """Whether there is no overflow, and the absolute errors of subnormal numbers are negligible."""
        return in_range(self.low, self.high, dtype)


def in_range(low: float, high: float, dtype: torch.dtype) -> bool:
    """Whether a dtype represents products of values and their sums, from 2^low to 2^high in magnitude."""
    return low >= math.log2(SMALLEST_SCALE[dtype]) and high <= math.log2(torch.finfo(dtype).max) - 2


def value_range(values: Sequence[Tensor], masks: Sequence[Tensor]) -> ValueRange:
    """The range of products of the value sets (H, L_m, d_v), over the tokens that are not masked by (H, L_m).

    The range follows from the smallest and the largest value of each set: the extremes of a product are products of
    extremes.
    """
    names = [f"values[{m}]" for m in range(len(values))]
    ends = finite_extremes(names, values, masks or (None,) * len(values))
    low, high = ends[:, 0].unbind(0)
    for least, most in ends[:, 1:].unbind(1):
        products = torch.stack([low * least, low * most, high * least, high * most])
        low, high = products.amin(0), products.amax(0)
    log_low, log_high = 0.0, sum(math.log2(max(value.shape[1], 1)) for value in values)
    if values[0].shape[0]:
        largest = ends.abs().amax((0, 3))
        least, most = torch.log2(largest.masked_fill(largest == 0, 1.0)).aminmax(dim=1)
        lows, highs = numbers(torch.stack([least, most]))
        log_low += sum([min(x, 0.0) for x in lows])
        log_high += sum([max(x, 0.0) for x in highs])
    magnitude = torch.maximum(low.abs(), high.abs()) * SLACK
    width = (high - low) * SLACK
    if len(values) > 1:  # extremes of one set are exact
        varied = (ends[0] < ends[1]).any(0)
        width += 4 * len(values) * 2.0**-53 * magnitude * varied
    return ValueRange(magnitude, width, ends, log_low, log_high)
