r"""Order-k attention by the polynomial method: Algorithm 1 of Alman and Song, for any order, over chunks that fit into
cache.

With monomials Phi(x)_alpha = x^alpha over an index set A and coefficients c_alpha,

    sum_t P(s_t) [v_t, 1] = sum_alpha c_alpha q^alpha prod_m Z_m,alpha,    Z_m = Phi(K_m)^T [V_m, 1],

because a sum over tuples of products is the product of the sums (Lemma C.3). With squared deviations u_m of the values
the states have further columns, Phi(K_m)^T u_m. The *states* Z_m cost one pass over each key set; their Hadamard
product Z is multiplied by Phi(Q) in one pass over the queries. Steps 1-6 of the algorithm are `states` (1, 2, 4) and
`attend` (3, 5, 6). `Expansion` is the polynomial. `sum_of_monomials` and `against_monomials`, which states of a stream
use, are the two passes as functions that autograd differentiates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import truth
from separatrix.attention.arithmetic.incoming import Power
from separatrix.attention.bounds import pieces
from separatrix.attention.call import Call
from separatrix.attention.dispatch.registration import only_first_derivatives
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.backend import NearLinearBackend, backend_of, near_linear_backend
from separatrix.attention.near_linear.cost import chunk_tokens


@dataclass(frozen=True)
class Expansion:
    """sum over alpha in `index_set` of coefficients[alpha] q^alpha k_1^alpha ..., in the coordinates of `frame`.

    The coefficients are in float64 for every dtype of the coordinates: 1 / alpha! is below the range of float32 from
    degree 34 on, where its terms may still be large. The coefficients may end before the last level, which then serves
    only the moment.

    Attributes:
        frame: The coordinates.
        index_set: The multi-indices.
        coefficients: The coefficients of the monomials, (terms,).
        moment: The level whose sum over tuples, sum_t s_t^moment, is computed in addition to the output; None for none.
        squares: For each key set u_m (H, L_m, columns), of which sum_t s_t^moment prod_m u_m is computed too; or none.
    """

    frame: Frame
    index_set: IndexSet
    coefficients: Tensor
    moment: int | None
    squares: tuple[Tensor, ...] = ()

    @cached_property
    def terms(self) -> int:
        """The number of multi-indices that have a coefficient, the first ones of the index set."""
        return self.coefficients.shape[0]

    @cached_property
    def weighted(self) -> int:
        """The number of columns of `squares`."""
        return self.squares[0].shape[2] if self.squares else 0

    @cached_property
    def level(self) -> tuple[int, int]:
        """The half-open range of the rows of the moment's level."""
        return (0, 0) if self.moment is None else self.index_set.levels[self.moment]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which monomials are computed."""
        return self.frame.dtype

    def wide(self) -> Expansion:
        """The expansion with its monomials in float64."""
        return replace(self, frame=replace(self.frame, dtype=torch.float64))

    def even_chunk(self, heads: int, length: int) -> int:
        """The number of tokens in a chunk when `length` tokens are divided into the smallest number of chunks of equal
        length.

        The number is a multiple of 64. A long sequence has at least two chunks, so that the second one reuses the
        memory of the first.
        """
        most, length = chunk_tokens(heads, self.index_set.rank, self.dtype == torch.float64), max(length, 1)
        pieces = max(-(-length // most), min(2, length // 2048), 1)
        return min(-(-length // (64 * pieces)) * 64, most, length)

    def all_coefficients(self) -> Tensor:
        """The coefficients (rank,), with zeros for the multi-indices that have none."""
        return torch.nn.functional.pad(self.coefficients, (0, self.index_set.rank - self.terms))

    def moment_weights(self) -> Tensor:
        """The weights (rank,) for which the sums of a level become those of s^moment; zero for the other levels."""
        weights, level = self.coefficients.new_zeros(self.index_set.rank), slice(*self.level)
        weights[level] = torch.from_numpy(self.index_set.multinomials[level]).to(weights)
        return weights

    def of_set(self, m: int, here: slice) -> Tensor | None:
        """The squares of some tokens of key set m, if there are any."""
        return self.squares[m][:, here] if self.squares else None


@dataclass(frozen=True)
class Sums:
    """For each query: the output (H, L_q, d_v), the denominator and the moment (H, L_q) in float64.

    `weighted` (H, L_q) is the largest sum_t s_t^moment u_t over the columns u of the squares; None without squares.
    """

    output: Tensor
    denominator: Tensor
    moment: Tensor
    weighted: Tensor | None = None


def with_ones(value: Tensor, mask: Tensor | None, dtype: torch.dtype, squares: Tensor | None = None) -> Tensor:
    """[V, 1, squares]^T (H, d_v + 1 + columns, c), with zeros for masked tokens."""
    heads, length, d_v = value.shape
    columns = 0 if squares is None else squares.shape[2]
    widened = value.new_empty(heads, d_v + 1 + columns, length, dtype=dtype)
    widened[:, :d_v] = value.mT
    widened[:, d_v] = 1.0
    if squares is not None:
        widened[:, d_v + 1 :] = squares.mT
    return widened if mask is None else widened.masked_fill_(~mask.unsqueeze(1), 0.0)


def states(call: Call, expansion: Expansion) -> list[Tensor]:
    """Z_m (H, rank, d_v + 1 + columns of squares) for each key set, in float64."""
    backend = backend_of(call, expansion.weighted)
    return [key_state(call, expansion, backend, m, 0, key.shape[1]) for m, key in enumerate(call.keys)]


def key_state(call: Call, expansion: Expansion, backend: NearLinearBackend, m: int, start: int, stop: int) -> Tensor:
    """The state of the tokens in [start, stop) of key set m."""
    key, value, mask = call.keys[m], call.values[m], call.masks[m] if call.masks else None
    here = slice(start, stop)
    one_pass = backend.one_pass(expansion, key[:, here], m + 1, value[:, here])
    if one_pass is not None:
        return one_pass.state(value[:, here], None if mask is None else mask[:, here], expansion.of_set(m, here))
    heads, _, d_v = value.shape
    size, columns = expansion.even_chunk(heads, stop - start), d_v + 1 + expansion.weighted
    state = value.new_zeros(heads, expansion.index_set.rank, columns, dtype=torch.float64)
    for first in range(start, stop, size):
        here = slice(first, min(first + size, stop))
        seen = None if mask is None else mask[:, here]
        x = expansion.frame.coordinates(key[:, here], m + 1, seen)
        W = with_ones(value[:, here], seen, expansion.dtype, expansion.of_set(m, here))
        backend.add(expansion.index_set, state, x, W)
    return state


def contraction(Z: Sequence[Tensor], expansion: Expansion) -> Tensor:
    """The factor of Phi(Q): c Z (H, rank, d_v + 1), followed by the columns of the moment and of the squares."""
    product, weighted = Z[0], expansion.weighted
    for z in Z[1:]:
        product = product * z
    of_terms = product[..., : product.shape[-1] - weighted] * expansion.all_coefficients().unsqueeze(-1)
    of_moments, level = torch.zeros_like(product[..., : weighted + 1]), slice(*expansion.level)
    weights = expansion.moment_weights()[level].unsqueeze(-1)
    of_moments[:, level] = product[:, level, product.shape[-1] - weighted - 1 :] * weights
    return torch.cat([of_terms, of_moments], -1)


def attend(call: Call, expansion: Expansion, Z: list[Tensor]) -> Sums:
    """Attend with all queries to the states; a query without keys to attend has denominator 0 and output 0."""
    query = call.query
    heads, length, _ = query.shape
    d_v = call.values[0].shape[2]
    backend, M = backend_of(call, expansion.weighted), contraction(Z, expansion)
    one_pass = backend.one_pass(expansion, query, 0, call.values[0])
    if one_pass is not None:
        return Sums(*one_pass.attend(M))
    size, M = expansion.even_chunk(heads, length), M.to(expansion.dtype).contiguous()
    out = query.new_empty(heads, length, d_v)
    denominator, moment, weighted = (query.new_empty(heads, length, dtype=torch.float64) for _ in range(3))
    for start, stop in pieces(length, size):
        x = expansion.frame.coordinates(query[:, start:stop], 0)
        sums = backend.sums(expansion.index_set, x, M).to(torch.float64)
        D = denominator[:, start:stop] = sums[:, d_v]
        moment[:, start:stop] = sums[:, d_v + 1]
        if expansion.squares:
            weighted[:, start:stop] = sums[:, d_v + 2 :].amax(1)
        out[:, start:stop] = (sums[:, :d_v] / D.masked_fill(D == 0, math.inf).unsqueeze(1)).mT
    return Sums(out, denominator, moment, weighted if expansion.squares else None)


def backward(
    call: Call, expansion: Expansion, Z: list[Tensor], sums: Sums, grad_out: Tensor, grad_lse: Tensor
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The gradients of query, keys and values, recomputing the monomials chunk by chunk."""
    incoming = IncomingGradient(sums, grad_out, grad_lse)
    power = incoming.power
    if incoming.far_apart:
        expansion = expansion.wide()
    dtype, frame = expansion.dtype, expansion.frame
    heads, length, _ = call.query.shape
    size, backend, index_set = expansion.even_chunk(2 * heads, length), backend_of(call), expansion.index_set
    M = contraction(Z, expansion)[..., :-1].to(dtype).contiguous()
    grad_product = torch.zeros_like(Z[0])
    grad_query = torch.empty_like(call.query)
    for start, stop in pieces(length, size):
        here = slice(start, stop)
        x = frame.coordinates(call.query[:, here], 0)
        d_sums = incoming.of_sums(here).mT.to(dtype)
        backend.add(index_set, grad_product, x, d_sums)
        grad_x, _ = backend.gradient(index_set, x, M, d_sums)
        grad_query[:, here] = power.multiply(frame.pull_back(grad_x, 0))
    grad_product *= expansion.coefficients.unsqueeze(-1)
    grad_keys, grad_values = [], []
    for m in range(len(call.keys)):
        grad_Z = grad_product
        for other, z in enumerate(Z):
            if other != m:
                grad_Z = grad_Z * z
        grad_keys.append(torch.zeros_like(call.keys[m]))
        grad_values.append(torch.zeros_like(call.values[m]))
        state_backward(call, expansion, m, call.keys[m].shape[1], grad_Z, power, grad_keys[m], grad_values[m])
    return grad_query, grad_keys, grad_values


class IncomingGradient:
    """The gradients of output and log-sum-exp, as gradients of numerator and denominator, scaled to about 1.

    The gradient of a numerator is the gradient of the output divided by the denominator, and may underflow. So the
    gradients of a head are divided by the power of two next to the largest of them before they are divided by the
    denominators, and the quotients by the power of two next to the largest quotient. The returned gradients are linear
    in the incoming gradients, so they are multiplied by `power`, the product of the two.
    """

    def __init__(self, sums: Sums, grad_out: Tensor, grad_lse: Tensor) -> None:
        self._output, self._grad_out, self._grad_lse = sums.output, grad_out, grad_lse
        self._denominator = sums.denominator.masked_fill(sums.denominator == 0, math.inf)
        largest = torch.maximum(grad_out.abs().amax(-1).to(torch.float64), grad_lse.abs().to(torch.float64))
        self._first = Power.next_to(largest)
        self._sizes = self._first.divide(largest) / self._denominator
        self._second = Power.next_to(self._sizes)
        self.power = self._first.times(self._second)

    @property
    def far_apart(self) -> bool:
        """Whether the gradients of two queries of a head differ so much in magnitude that float32 would lose the
        smaller."""
        sizes = self._sizes
        if not sizes.numel():
            return False
        least = sizes.masked_fill(sizes == 0, math.inf).amin(1)
        return truth((least < 2.0**-40 * sizes.amax(1)).any())

    def of_sums(self, here: slice) -> Tensor:
        """The gradients (H, c, d_v + 1) of numerators and denominators divided by `power`; 0 for queries with nothing
        to attend."""
        dO = self._first.divide(self._grad_out[:, here].to(torch.float64))
        by_lse = self._first.divide(self._grad_lse[:, here].to(torch.float64))
        last = by_lse - (dO * self._output[:, here].to(torch.float64)).sum(-1)
        both = torch.cat([dO, last.unsqueeze(-1)], -1)
        return self._second.divide(both / self._denominator[:, here].unsqueeze(-1))


def state_backward(
    call: Call,
    expansion: Expansion,
    m: int,
    stop: int,
    grad_Z: Tensor,
    outer: Power,
    grad_key: Tensor,
    grad_value: Tensor,
) -> None:
    """Write the gradients of the first `stop` tokens of key set m (`grad_key`) and of their values (`grad_value`).

    `grad_Z` is the gradient of the state of these tokens, divided by `outer`, a power of two for each head.
    """
    key, value = call.keys[m], call.values[m]
    size, backend = expansion.even_chunk(2 * key.shape[0], stop), backend_of(call)
    inner = Power.next_to(grad_Z.flatten(1))
    M = inner.divide(grad_Z).to(expansion.dtype).contiguous()
    power = outer.times(inner)
    for first, last in pieces(stop, size):
        here = slice(first, last)
        mask = call.masks[m][:, here] if call.masks else None
        x = expansion.frame.coordinates(key[:, here], m + 1, mask)
        V = with_ones(value[:, here], mask, expansion.dtype)
        grad_x, grad_W = backend.gradient(expansion.index_set, x, M, V)
        grad_K = power.multiply(expansion.frame.pull_back(grad_x, m + 1))
        grad_V = power.multiply(grad_W[:, :-1].mT.to(torch.float64))
        if mask is not None:
            grad_V, grad_K = (x.masked_fill(~mask.unsqueeze(-1), 0.0) for x in (grad_V, grad_K))
        grad_value[:, here], grad_key[:, here] = grad_V, grad_K
    if expansion.frame.shift is not None:
        mean = grad_key.sum(1, keepdim=True, dtype=torch.float64) / call.counts()[m].clamp(min=1).reshape(-1, 1, 1)
        grad_key -= mean if not call.masks else mean * call.masks[m].unsqueeze(-1)


class _SumOfMonomials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, index_set: IndexSet, size: int) -> Tensor:
        ctx.index_set, ctx.size = index_set, size
        ctx.save_for_backward(x, W)
        backend = near_linear_backend((x, W), 1, W.shape[1] - 1)
        state = x.new_zeros(x.shape[0], index_set.rank, W.shape[1], dtype=torch.float64)
        for start in range(0, x.shape[2], size):
            backend.add(index_set, state, x[..., start : start + size], W[..., start : start + size])
        return state

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, W = ctx.saved_tensors
        backend, grad = near_linear_backend((x, W, grad), 1, W.shape[1] - 1), grad.contiguous()
        grad_x, grad_W = torch.empty_like(x), torch.empty_like(W)
        for start in range(0, x.shape[2], ctx.size):
            here = slice(start, start + ctx.size)
            grad_x[..., here], grad_W[..., here] = backend.gradient(ctx.index_set, x[..., here], grad, W[..., here])
        return grad_x, grad_W, None, None


class _AgainstMonomials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, M: Tensor, index_set: IndexSet, size: int) -> Tensor:
        ctx.index_set, ctx.size = index_set, size
        ctx.save_for_backward(x, M)
        backend, M = near_linear_backend((x, M), 1, M.shape[2] - 1), M.contiguous()
        starts = range(0, x.shape[2], size)
        return torch.cat([backend.sums(index_set, x[..., start : start + size], M) for start in starts], -1)

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, M = ctx.saved_tensors
        backend, index_set = near_linear_backend((x, M, grad), 1, M.shape[2] - 1), ctx.index_set
        grad_x, grad_M, M = torch.empty_like(x), torch.zeros_like(M, dtype=torch.float64), M.contiguous()
        for start in range(0, x.shape[2], ctx.size):
            here = slice(start, start + ctx.size)
            backend.add(index_set, grad_M, x[..., here], grad[..., here])
            grad_x[..., here], _ = backend.gradient(index_set, x[..., here], M, grad[..., here])
        return grad_x, grad_M, None, None


sum_of_monomials: Callable[[Tensor, Tensor, IndexSet, int], Tensor] = _SumOfMonomials.apply
"""sum_n x_n^alpha W_n (H, rank, c) for x (H, d, n) and W (H, c, n) in float64, `size` tokens at a time."""
against_monomials: Callable[[Tensor, Tensor, IndexSet, int], Tensor] = _AgainstMonomials.apply
"""sum_alpha x_n^alpha M_alpha (H, c, n) for x (H, d, n) and M (H, rank, c) in float64, `size` tokens at a time."""
