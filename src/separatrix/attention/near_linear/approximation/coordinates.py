r"""The coordinates in which scores are expanded: transformations that lower the rank without changing the softmax.

    s = scale * sum_l q_l k_1,l ... k_{k-1},l

- A coordinate in which the query or a key set is always zero adds nothing to the scores. It is dropped, unless
  gradients will be taken, because its gradient need not be zero.
- Coordinate l may be multiplied by t_l in one factor and divided by it in another. This does not change the amplitudes,
  but changes Hoelder's bound and the size of the monomials: the largest magnitudes of the factors are made equal by
  powers of two, which is exact.
- At order 2 a vector mu subtracted from every key changes the scores of a query by the constant scale <q, mu>, which
  does not change the softmax: the keys' mean is subtracted if it is not small, except in causal attention, where the
  mean would depend on later keys.
- At order 2 any invertible map of the query, and its inverse transpose on the keys, does not change <q, k>: see
  `rotation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers, truth
from separatrix.attention.bounds import SLACK, InputBounds, product_without
from separatrix.attention.call import Call
from separatrix.errors import SeparatrixError


@dataclass(frozen=True)
class Basis:
    """The matrices that `rotation` applies last to query and keys, (H, d'', d') each.

    A score changes by at most |q_i| `longest` `defect` + `absolute`, (H,) each; q_i is the query in the previous
    coordinates, and `longest` is the length of the longest key in them.
    """

    query: Tensor
    keys: Tensor
    longest: Tensor
    defect: Tensor
    absolute: Tensor

    def matrix(self, m: int) -> Tensor:
        return self.keys if m else self.query


@dataclass(frozen=True)
class Frame:
    """`kept` coordinates; `factors[0]` (H, d') for the query and `factors[m]` for key set m; `shift` (H, d') or None.

    `largest[m]` (H, d') bounds |coordinate| over the tokens of set m, query first; scale is in the query's.
    """

    kept: Tensor
    factors: tuple[Tensor, ...]
    shift: Tensor | None
    largest: tuple[Tensor, ...]
    scale: float
    dimension: int
    dtype: torch.dtype
    basis: Basis | None = None

    @cached_property
    def width(self) -> int:
        """d', the number of coordinates."""
        return self.largest[0].shape[-1]

    @cached_property
    def only_scales(self) -> bool:
        """Whether coordinates are entries times factors: all are kept, none is shifted, and the basis is unchanged."""
        return self.basis is None and self.shift is None and len(self.kept) == self.dimension

    def coordinates(self, x: Tensor, m: int, mask: Tensor | None = None) -> Tensor:
        """Tokens (H, c, d) of set m, 0 for the query, to (H, d', c), contiguous; masked tokens become 0."""
        if len(self.kept) < self.dimension:
            x = x[..., self.kept]
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        if m and self.shift is not None:
            x = x.to(torch.float64) - self.shift.unsqueeze(1)
            if mask is not None:
                x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        factor = (self.factors[m] * (1.0 if m else self.scale)).unsqueeze(-1)
        if self.basis is not None:
            return (self.basis.matrix(m) @ (x.mT * factor)).to(self.dtype)
        # In float64, because a factor may be subnormal in float32, where its rounding error may exceed half a unit.
        if x.requires_grad:
            return (x.mT * factor).to(self.dtype)
        into = x.new_empty(x.shape[0], x.shape[2], x.shape[1], dtype=self.dtype)
        return into.copy_(x.mT * factor)

    def pull_back(self, grad: Tensor, m: int) -> Tensor:
        """The gradient of `coordinates`, (H, d', c) to (H, c, d), for tokens that are not masked."""
        grad = grad.to(torch.float64)
        if self.basis is not None:
            grad = self.basis.matrix(m).mT @ grad
        grad = grad.mT * self.factors[m].unsqueeze(1)
        if m == 0:
            grad = grad * self.scale
        whole = grad.new_zeros(*grad.shape[:-1], self.dimension)
        whole[..., self.kept] = grad
        return whole


def reaches(frame: Frame) -> list[Tensor]:
    """The largest derivative of a score by an entry of the query (first) and of each key set, (H,) each."""
    bounds = []
    for m in range(len(frame.largest)):
        product = product_without(m, frame.largest)
        if frame.basis is not None:
            product = (frame.basis.matrix(m).abs() * product.unsqueeze(-1)).sum(1)
        by_entry = frame.factors[m] * product * (1.0 if m else abs(frame.scale))
        most = by_entry.amax(1) if by_entry.shape[1] else by_entry.sum(1)
        bounds.append(most * SLACK * (1 + (len(frame.largest) + 4) * torch.finfo(frame.dtype).eps))
    return bounds


def key_mean(call: Call) -> Tensor:
    """The mean (H, d) of the one key set of order 2, over the keys that may be attended; 0 where there is none."""
    return token_mean(call.keys[0], call.mask_of_each[0])


_SMALL_MEAN = 1 / 32
"""A mean is subtracted only if it exceeds this fraction of the largest key: passes over unchanged keys are faster, and
subtracting a smaller mean would lower the bound on the scores by at most this fraction."""


def key_shift(call: Call, largest: Tensor) -> Tensor | None:
    """The mean of the keys at order 2; None if it is small in every coordinate relative to their largest magnitude."""
    mean = key_mean(call)
    return mean if truth((mean.abs() > _SMALL_MEAN * largest).any()) else None


def token_mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """The mean (H, d) of tokens (H, L, d), over those that may be attended, in float64; 0 where there is none."""
    if mask is None:
        return x.sum(1, dtype=torch.float64) / max(x.shape[1], 1)
    count = mask.sum(1, keepdim=True)
    return x.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1, dtype=torch.float64) / count.masked_fill(count == 0, 1)


def make_frame(call: Call, bounds: InputBounds, shift: Tensor | None, dtype: torch.dtype, all_of_them: bool) -> Frame:
    """The frame of a call, given the largest magnitude of each coordinate; `all_of_them` drops no coordinate, as
    gradients require."""
    query, *keys = bounds.largest.unbind(0)
    if shift is not None:
        keys = [(bounds.ends[:, 1] - shift).abs().amax(0)]  # if all tokens are masked, the shift is 0 too
    largest = [query * abs(call.scale), *keys]
    kept, factors, balanced = balance(largest, all_of_them)
    shift = None if shift is None else shift[..., kept]
    return Frame(kept, factors, shift, balanced, call.scale, call.query.shape[2], dtype)


def balance(largest: list[Tensor], all_of_them: bool) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The coordinates that are not zero, the powers of two (H, d') that balance their factors, and the balanced
    magnitudes."""
    logs = torch.stack([torch.log2(x) for x in largest])
    zero = torch.isneginf(logs)
    used = ~zero.any(0)
    coordinates = list(range(used.shape[1]))
    if not all_of_them:
        coordinates = [at for at, some in enumerate(numbers(used.any(0))) if some]
    kept = torch.tensor(coordinates, dtype=torch.int64, device=used.device)
    # If a factor is always zero, the other factors are scaled to about 1, so that their powers do not overflow.
    others = logs.masked_fill(zero, 0.0)
    logs = torch.where(zero, -others.sum(0) / zero.sum(0).clamp(min=1), others)
    exponents, lost = torch.zeros_like(logs), torch.zeros_like(logs[0])
    for m, wanted in enumerate((logs.mean(0) - logs)[1:], start=1):
        exponents[m] = torch.round(wanted)
        lost += wanted - exponents[m]
        whole = torch.trunc(lost)  # many roundings of the same sign, which the query would have to compensate
        exponents[m] += whole
        lost -= whole
    exponents[0] = -exponents[1:].sum(0)
    if truth((exponents.abs() > 1000).any()):
        raise SeparatrixError(
            "Query and keys differ by more than 2^1000 in some coordinate: no power of two brings them together. "
            "Rescale them first (a factor moved from the query to a key set changes no score)."
        )
    factors, balanced = torch.exp2(exponents), torch.stack(largest)
    if len(coordinates) < used.shape[1]:
        factors, balanced = factors[..., kept], balanced[..., kept]
    return kept, tuple(factors), tuple(balanced * factors)
