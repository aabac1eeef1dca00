r"""The coordinates in which scores are expanded: transformations that lower the rank without changing the softmax.

    s = scale * sum_l q_l k_1,l ... k_{k-1},l

- A coordinate in which the query or a key set is always zero adds nothing to the scores. Such a coordinate is dropped,
  unless gradients will be computed, because its gradient need not be zero.
- Coordinate l may be multiplied by t_l in one factor and divided by it in another. This does not change the amplitudes,
  but changes Hoelder's bound and the size of the monomials: the largest magnitudes of the factors are made equal by
  powers of two, which is exact.
- At order 2 a vector mu subtracted from every key changes the scores of a query by the constant scale <q, mu>, which
  does not change the softmax. The keys' mean is subtracted if it is not small, except in causal attention, where the
  mean would depend on later keys.
- At order 2 any invertible map of the query, and its inverse transpose on the keys, does not change <q, k>:
  `rotated` finds a basis in which fewer monomials suffice.

**The basis.** Of all pairs with B_q^T B_k = I, the pair that makes the second moments of the query and of the centred
keys equal and diagonal has the smallest sum of amplitudes, and sorts them, so that few monomials account for most of
exp(s). With second moments C_q = L L^T, C_k and L^T C_k L = U diag(lambda^2) U^T,

    B_q = lambda^{1/2} U^T L^{-1},        B_k = lambda^{-1/2} U^T L^T.

The computed coordinates belong to another problem, whose scores differ from the given ones by at most the *drift*

    |s' - s| <= |q_i| max_j |k_j| (|B_q^T B_k - I| + gamma_{3d+16} |B_q| |B_k|),

in Euclidean and Frobenius norms, where the defect is measured on the two computed matrices. The last coordinates are
dropped as long as their amplitudes, which are added to the drift, are negligible. Any invertible matrices give correct
results; good ones lower the rank (docs/derivations/near-linear-attention.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, numbers, truth
from separatrix.attention.bounds import SLACK, InputBounds, pieces, product_without
from separatrix.attention.call import Call
from separatrix.errors import SeparatrixError


@dataclass(frozen=True)
class Basis:
    """The matrices that `rotated` applies last to query and keys, (H, d'', d') each.

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
    """The map from the entries of queries and keys to the coordinates in which scores are expanded.

    Set 0 is the query. The coordinates of set m are the `kept` entries times `factors[m]` (H, d'), then multiplied by
    the `basis`, if there is one. The `shift` (H, d') or None is first subtracted from keys, and the query's coordinates
    include the scale. `largest[m]` (H, d') bounds |coordinate| over the tokens of set m.
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
        """The contiguous coordinates (H, d', c) of tokens (H, c, d) of set m, 0 for the query; 0 for masked tokens."""
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
    # If a factor is always zero, the other factors are scaled to about 1, so that their powers do not overflow.
    nonzero_logs = logs.masked_fill(zero, 0.0)
    logs = torch.where(zero, -nonzero_logs.sum(0) / zero.sum(0).clamp(min=1), nonzero_logs)
    exponents, lost = torch.zeros_like(logs), torch.zeros_like(logs[0])
    for m, wanted in enumerate((logs.mean(0) - logs)[1:], start=1):
        exponents[m] = torch.round(wanted)
        lost += wanted - exponents[m]
        whole = torch.trunc(lost)  # otherwise the query would have to compensate many roundings of one sign
        exponents[m] += whole
        lost -= whole
    exponents[0] = -exponents[1:].sum(0)
    *some, far_apart = numbers(torch.cat([used.any(0), (exponents.abs() > 1000).any().reshape(1)]))
    if far_apart:
        raise SeparatrixError(
            "Query and keys differ by more than 2^1000 in some coordinate: no power of two brings them together. "
            "Rescale them first (a factor moved from the query to a key set changes no score)."
        )
    coordinates = [at for at, is_used in enumerate(some) if is_used or all_of_them]
    kept = torch.tensor(coordinates, dtype=torch.int64, device=used.device)
    factors, balanced = torch.exp2(exponents), torch.stack(largest)
    if len(coordinates) < used.shape[1]:
        factors, balanced = factors[..., kept], balanced[..., kept]
    return kept, tuple(factors), tuple(balanced * factors)


_RIDGE = 1e-6
"""Added to the moments, relative to their mean, to bound the condition of the basis."""
_TOKENS = 1 << 12
"""The number of queries, and of keys, from whose second moments a basis is computed."""
_GAIN = 0.9
"""The fraction of the amplitudes' sum, or of the coordinates that carry it, that a basis must save to be tried."""


def rotated(call: Call, frame: Frame, slack: float | None) -> Frame | None:
    """The frame in the balanced basis; None if it would differ little, or if second moments overflow.

    `slack` bounds the sum of the dropped amplitudes; None drops no coordinate, as gradients require.
    """
    C_q, C_k = (_moments(call, frame, m) for m in range(2))
    if not truth(torch.isfinite(C_q).all() & torch.isfinite(C_k).all()):
        return None
    L, failed = torch.linalg.cholesky_ex(_ridged(C_q))
    both = L.mT @ _ridged(C_k) @ L
    if not truth(torch.isfinite(both).all()):
        return None
    squares, U = torch.linalg.eigh(both)
    squares, U = squares.flip(-1), U.flip(-1)
    if truth(failed.any() | ~(squares > 0).all()) or not _gains(C_q, C_k, squares.sqrt()):
        return None
    roots = squares.sqrt().sqrt().unsqueeze(-1)
    B_q = roots * torch.linalg.solve_triangular(L.mT, U, upper=True).mT
    B_k = (L @ U).mT / roots
    nothing = torch.zeros(len(B_q), dtype=torch.float64, device=B_q.device)
    whole = replace(frame, basis=Basis(B_q, B_k, nothing, nothing, nothing))
    largest = [_largest(call, whole, m) for m in range(2)]
    amplitudes = largest[0] * largest[1]
    upwards = amplitudes.amax(0).argsort()
    left_out = torch.nn.functional.pad(amplitudes[:, upwards].cumsum(1), (1, 0))
    count = 0 if slack is None else min(int(number((left_out.amax(0) <= slack).sum())), len(upwards)) - 1
    kept, left_out = upwards[count:].sort().values, left_out[:, count]
    _, factors, balanced = balance([x[:, kept] for x in largest], True)
    query, keys = (B[:, kept] * factor.unsqueeze(-1) for B, factor in zip((B_q, B_k), factors, strict=True))
    basis = Basis(query, keys, _longest(call, frame), _defect(B_q, B_k), left_out)
    return replace(frame, basis=basis, largest=balanced)


def drift(call: Call, frame: Frame) -> Tensor | None:
    """A bound (H, L_q) on the change of a score by the frame's basis; None if the frame has no basis."""
    if frame.basis is None:
        return None
    basis, norms = frame.basis, _query_norms(call, frame)
    relative = (basis.longest * basis.defect).unsqueeze(-1)
    return 1.01 * (norms * relative + basis.absolute.unsqueeze(-1)) + 2.0**-1000


def derivative_drift(call: Call, frame: Frame) -> list[Tensor]:
    """Bounds (H, L_q) on the changes of the derivatives of scores by an entry of the query and by an entry of a key of
    each set.

    Without a basis the bounds are 0. Coordinates that a basis leaves out would change them as well, but with gradients
    none are left out.
    """
    if frame.basis is None:
        return [torch.zeros_like(frame.largest[0][:, :1])] * (len(frame.largest))
    basis = frame.basis
    assert not truth(basis.absolute.any()), "a basis for gradients leaves out no coordinate"
    by_query = abs(frame.scale) * frame.factors[0].amax(1) * basis.longest * basis.defect
    by_key = (frame.factors[1].amax(1) * basis.defect).unsqueeze(-1) * _query_norms(call, frame)
    return [1.01 * by_query.unsqueeze(-1) + 2.0**-1000, 1.01 * by_key + 2.0**-1000]


def _query_norms(call: Call, frame: Frame) -> Tensor:
    """Euclidean norms (H, L_q) of the queries in the coordinates before the change of basis."""
    return torch.cat(list(_norms(call, replace(frame, basis=None), 0)), 1)


def _longest(call: Call, frame: Frame) -> Tensor:
    """max_j |k_j|, (H,)."""
    longest = torch.zeros(call.query.shape[0], dtype=torch.float64, device=frame.kept.device)
    for norms in _norms(call, frame, 1):
        longest = torch.maximum(longest, norms.amax(1))
    return longest


def _defect(B_q: Tensor, B_k: Tensor) -> Tensor:
    """|B_q^T B_k - I| + gamma |B_q| |B_k|, (H,); gamma includes the rounding of the defect."""
    d = B_q.shape[2]
    size = torch.linalg.matrix_norm(B_q) * torch.linalg.matrix_norm(B_k)
    defect = torch.linalg.matrix_norm(B_q.mT @ B_k - torch.eye(d, dtype=torch.float64, device=B_q.device))
    bound: Tensor = defect + (3 * d + 16) * 2.0**-53 * size
    return bound


def _parts(call: Call, frame: Frame, m: int) -> Iterator[Tensor]:
    """Coordinates (H, d', c) of the query (m = 0) or of the keys (m = 1), chunk by chunk; masked keys are 0."""
    x = call.keys[0] if m else call.query
    for start, stop in pieces(x.shape[1], 1 << 14):
        mask = call.masks[0][:, start:stop] if m and call.masks else None
        yield frame.coordinates(x[:, start:stop], m, mask)


def _moments(call: Call, frame: Frame, m: int) -> Tensor:
    """The sum of x x^T over evenly spaced tokens, (H, d', d')."""
    tokens = call.keys[0] if m else call.query
    step = -(-tokens.shape[1] // _TOKENS)
    mask = call.masks[0][:, ::step] if m and call.masks else None
    x = frame.coordinates(tokens[:, ::step], m, mask)
    return x @ x.mT


def _norms(call: Call, frame: Frame, m: int) -> Iterator[Tensor]:
    return (torch.linalg.vector_norm(x, dim=1) for x in _parts(call, frame, m))


def _largest(call: Call, frame: Frame, m: int) -> Tensor:
    """max |x_l|, (H, d')."""
    largest = torch.zeros(call.query.shape[0], frame.width, dtype=torch.float64, device=frame.kept.device)
    for x in _parts(call, frame, m):
        largest = torch.maximum(largest, x.abs().amax(2))
    return largest


def _ridged(C: Tensor) -> Tensor:
    mean = C.diagonal(dim1=1, dim2=2).mean(1)
    mean = mean.masked_fill(mean == 0, 1.0)  # for a head of zeros any basis is valid
    return C + _RIDGE * mean.reshape(-1, 1, 1) * torch.eye(C.shape[1], dtype=C.dtype, device=C.device)


def _gains(C_q: Tensor, C_k: Tensor, singular: Tensor) -> bool:
    """Whether the amplitudes `singular` have a smaller sum, or are on fewer coordinates, than the current amplitudes.

    An amplitude is the product of the root mean squares of a coordinate in queries and keys; the current amplitudes
    follow from the diagonals of `C_q` and `C_k`.
    """
    now = (C_q.diagonal(dim1=1, dim2=2) * C_k.diagonal(dim1=1, dim2=2)).sqrt()
    before, after = ((x.sum(1), x.square().sum(1)) for x in (now, singular))
    less = after[0] < _GAIN * before[0]
    fewer = after[0] ** 2 * before[1] < _GAIN * before[0] ** 2 * after[1]
    return truth((less | fewer).any())
