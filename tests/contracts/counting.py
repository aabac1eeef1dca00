"""Arithmetic that counts roundings in place of computing: it runs an algorithm and counts how often terms are rounded.

Inside `Counting` the entries of tensors are counts, not numbers: the largest number of roundings, in one dtype, that
any term of the entry has undergone. A product has the counts of its factors plus one; a sum has the largest count of
its terms plus one per addition; moved or copied numbers keep their count. A program whose control flow does not depend
on the numbers then computes, entry by entry, the number that `arithmetic/rounding.py` derives.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from separatrix.attention.arithmetic.rounding import EXPONENTIAL

KEPT = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "expand",
        "transpose",
        "permute",
        "slice",
        "select",
        "unsqueeze",
        "squeeze",
        "as_strided",
        "alias",
        "clone",
        "detach",
        "t",
        "cat",
        "stack",
        "index_select",
        "index_copy",
        "index_copy_",
        "new_empty",
        "empty",
        "empty_like",
        "empty_strided",
        "contiguous",
        "unbind",
        "split",
        "split_with_sizes",
        "unflatten",
        "flatten",
        "lift_fresh",
        "resize_",
        "amax",
        "maximum",
        "constant_pad_nd",
        "new_zeros",
        "zeros",
        "zeros_like",
        "zero_",
        "eq",
        "ne",
        "is_same_size",
        "full_like",
        "new_full",
        "repeat",
        "index",
        "arange",
        "new_ones",
        "ones_like",
        "ones",
        "full",
        "isinf",
        "logical_not",
        "bitwise_not",
        "bitwise_and",
        "flip",
        "index_put",
        "index_put_",
        "lt",
        "gt",
        "le",
        "ge",
        "log",
        "_local_scalar_dense",
        "where",
        "narrow",
    ]
)
"""Operations that round nothing: they act on counts as on numbers."""


class Counting(TorchDispatchMode):
    """Count the roundings to `dtype`, not to other dtypes. A conversion to the dtype is one rounding."""

    def __init__(self, dtype):
        super().__init__()
        self._dtype = dtype

    def _one(self, x):
        return 1.0 if x.dtype == self._dtype else 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = func._schema.name.removeprefix("aten::")
        if name in KEPT:
            found = func(*args, **kwargs)
            if name in ("new_ones", "ones_like", "ones", "full", "full_like", "new_full") and found.is_floating_point():
                found.zero_()
            return found
        into = kwargs.pop("out", None)
        found = getattr(self, f"count_{name.strip('_')}")(*args, **kwargs)
        into = args[0] if name.endswith("_") else into
        return found if into is None else into.copy_(found)

    def count_fill(self, x, value):
        return torch.zeros_like(x)

    def count_copy(self, x, source, non_blocking=False):
        return source.to(x.dtype).expand_as(x) + self._narrowed(source, x.dtype)

    def count_to_copy(self, x, **options):
        dtype = options.get("dtype") or x.dtype
        return x.to(dtype) + self._narrowed(x, dtype) if dtype.is_floating_point else x.to(dtype)

    def _narrowed(self, x, dtype):
        return 1.0 if dtype == self._dtype and x.dtype == torch.float64 and dtype != torch.float64 else 0.0

    def count_mul(self, a, b):
        if not isinstance(b, torch.Tensor) or b.dim() == 0:
            return a + self._one(a)
        if b.dtype == torch.bool or a.dtype == torch.bool:
            return a if b.dtype == torch.bool else b
        total = a + b
        return total + self._one(total)

    count_div = count_mul

    def count_reciprocal(self, a):
        return a + self._one(a)

    def count_add(self, a, b, alpha=1):
        if not isinstance(b, torch.Tensor) or b.dim() == 0:
            return a + self._one(a)
        most = torch.maximum(*torch.broadcast_tensors(a.to(torch.promote_types(a.dtype, b.dtype)), b.to(a.dtype)))
        return most + self._one(most)

    count_sub = count_add

    def count_neg(self, a):
        return a

    def count_abs(self, a):
        return a

    def count_addcmul(self, x, a, b, value=1):
        return self.count_add(x, self.count_mul(a, b))

    def count_sum(self, x, dim=None, keepdim=False, dtype=None):
        x = x if dtype is None else x.to(dtype)
        dims = list(range(x.dim())) if not dim else [d % x.dim() for d in dim]
        terms = 1
        for d in dims:
            terms *= x.shape[d]
        return x.amax(dims, keepdim=keepdim) + self._one(x) * max(terms - 1, 0) if terms else x.sum(dims, keepdim)

    def count_cumsum(self, x, dim, dtype=None):
        return x.cummax(dim).values + self._one(x) * (x.shape[dim] - 1)

    def count_bmm(self, a, b):
        most = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
        for row in range(a.shape[1]):
            most[:, row] = (a[:, row].unsqueeze(-1) + b).amax(1)
        return most + self._one(a) * a.shape[2]

    def count_baddbmm(self, x, a, b, beta=1, alpha=1):
        return self.count_add(x, self.count_bmm(a, b))

    def count_exp(self, x):
        """An exponential restarts the count: the error of its exponent is bounded separately."""
        return torch.full_like(x, EXPONENTIAL * self._one(x))

    def count_clamp(self, x, *bounds):
        return x

    def count_masked_fill(self, x, mask, value):
        return x.masked_fill(mask, 0.0)
