r"""Computes the exact gradients of a small call in balls, and checks the certificate of its gradients.

With weights p_t = exp(s_t) / sum_t exp(s_t), outputs o = sum_t p_t v_t and an incoming gradient g of each query,

    dL/dv_m,j = sum over queries and tuples t with t_m = j of  p_t g * (product of the other sets' values)
    dL/ds_t = p_t g . (v_t - o)
    dL/dq = sum_t dL/ds_t scale k_1,t1 * k_2,t2 * ...
    dL/dk_m,j = sum over queries and tuples t with t_m = j of  dL/ds_t scale q * (product of the other sets' keys)

where * is entrywise. The certificate of gradients states: let n_i = max(||g_i||_1, 2^-32 max ||g_i'||_1), the
maximum over the queries i' of the same head. The error of every entry of the gradient of query i is at most `query`[i]
n_i. The error of every entry of the gradient of keys[m] is at most `keys`[m] times the sum of n_i over the queries of
the heads that have these keys, and likewise for values. The smallest positive number of the gradients' dtype is added
to each bound, once for each head.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import numpy as np
import torch
from flint import arb
from torch import Tensor

from separatrix.attention.checker import balls
from separatrix.attention.checker.problem import Floats, Problem, as_problem, exact_floats, subnormal_numbers
from separatrix.attention.checker.verification import Verification
from separatrix.errors import SeparatrixError

if TYPE_CHECKING:
    from separatrix.attention.arguments import CallOptions

TUPLES = 1 << 17
"""The largest number of tuples, over all queries."""
_BITS = (128, 256, 512, 1024, 2048, 4096, 8192)


class GradientBounds(Protocol):
    """The error bounds of a certificate of gradients, as described in the module's docstring."""

    @property
    def query(self) -> Tensor: ...
    @property
    def keys(self) -> Sequence[float]: ...
    @property
    def values(self) -> Sequence[float]: ...


@dataclass
class Gradient:
    """The gradient of one tensor in balls, with the shape of the tensor, and the error bounds of its entries."""

    name: str
    exact: Any
    allowed: Any

    @staticmethod
    def zero(name: str, like: Tensor) -> Gradient:
        exact, allowed = np.empty(like.shape, dtype=object), np.empty(like.shape[:-1], dtype=object)
        exact.fill(arb(0))
        allowed.fill(arb(0))
        return Gradient(name, exact, allowed)


def check_gradients(
    gradients: tuple[Tensor, Sequence[Tensor], Sequence[Tensor]],
    incoming: Tensor,
    certificate: GradientBounds,
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    **options: Unpack[CallOptions],
) -> Verification:
    """Whether computed gradients of query, keys and values, for an incoming gradient, are within their certificate.

    The arguments from `query` to `options` are those of the call.
    """
    problem = as_problem(query, keys, values, **options)
    tensors = [gradients[0], *gradients[1], *gradients[2]]
    with subnormal_numbers():
        for bits in _BITS:
            with balls.bits(bits):
                exact = exact_gradients(problem, incoming, certificate)
                verdict, fine = _compare(tensors, exact)
            if verdict is not None and (fine or not verdict.held):
                return verdict
    if verdict is None:
        raise SeparatrixError(f"verify: gradients cannot be decided with {bits} bits.")
    return verdict


def exact_gradients(problem: Problem, incoming: Tensor, certificate: GradientBounds) -> list[Gradient]:
    """Yield the gradients of query, keys and values at the current precision."""
    g = exact_floats(incoming)
    promised = np.broadcast_to(exact_floats(certificate.query), problem.output_shape[:-1])
    sets = range(len(problem.keys))
    query = Gradient.zero("query", problem.query)
    keys = [Gradient.zero(f"keys[{m}]", problem.keys[m]) for m in sets]
    values = [Gradient.zero(f"values[{m}]", problem.values[m]) for m in sets]
    kind = torch.finfo(incoming.dtype)
    smallest = arb(kind.smallest_normal) * arb(kind.eps)
    left = TUPLES
    for batch in np.ndindex(problem.batch):
        head = problem.head(batch)
        rows = [_row(problem, x, batch) for x in (problem.query, *problem.keys, *problem.values)]
        sizes = [sum((abs(arb(x)) for x in row), arb(0)) for row in g[batch].tolist()]
        most = max(sizes, key=lambda x: float(x), default=arb(0)) * balls.power_of_two(-32)
        for gradient, row in zip((*keys, *values), rows[1:], strict=True):
            gradient.allowed[row] += smallest
        for i, size in enumerate(sizes):
            n = size.max(most)
            query.allowed[(*rows[0], i)] += n * arb(float(promised[(*batch, i)])) + smallest
            for m in sets:
                keys[m].allowed[rows[1 + m]] += n * arb(certificate.keys[m])
                values[m].allowed[rows[1 + len(keys) + m]] += n * arb(certificate.values[m])
            spans = problem.spans(i)
            left -= math.prod(head.counts(spans))
            if left < 0:
                raise SeparatrixError(f"verify: gradients are checked over at most {TUPLES:,} tuples of all queries.")
            attended = [np.flatnonzero(head.seen[m][start:stop]) + start for m, (start, stop) in enumerate(spans)]
            tokens = head.attended(spans)
            parts = _of_query(problem.vector((*batch, i)), *tokens, head.scale, g[batch][i])
            if parts is None:
                continue
            query.exact[(*rows[0], i)] += parts[0]
            for m in sets:
                for at, j in enumerate(attended[m].tolist()):
                    keys[m].exact[(*rows[1 + m], j)] += parts[1][m][at]
                    values[m].exact[(*rows[1 + len(keys) + m], j)] += parts[2][m][at]
    return [query, *keys, *values]


def _row(problem: Problem, x: Tensor, batch: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a head in the leading dimensions of a tensor, which may be broadcast or grouped."""
    lead = x.shape[:-2]
    numbers = torch.arange(math.prod(lead)).reshape(*lead, 1, 1)
    view = numbers.expand(*problem.batch, 1, 1)[batch] if x is problem.query else problem.view(numbers, batch)
    return tuple(int(i) for i in np.unravel_index(int(view), lead)) if lead else ()


Parts = tuple[Any, list[Any], list[Any]]


def _of_query(
    query: Floats, keys: Sequence[Floats], values: Sequence[Floats], scale: float, incoming: Floats
) -> Parts | None:
    """The contributions of a query to the gradients of itself (d,), of its keys (n_m, d) and of its values (n_m,
    d_v)."""
    tuples = list(itertools.product(*(range(len(key)) for key in keys)))
    if not tuples:
        return None
    q, g = _balls(arb(scale) * _balls(query)), _balls(incoming)
    K, V = [_balls(key) for key in keys], [_balls(value) for value in values]
    other_keys = [list(_without_each([k[j] for k, j in zip(K, t, strict=True)])) for t in tuples]
    other_values = [list(_without_each([v[j] for v, j in zip(V, t, strict=True)])) for t in tuples]
    product = [without[0] * K[0][t[0]] for without, t in zip(other_keys, tuples, strict=True)]
    value = [without[0] * V[0][t[0]] for without, t in zip(other_values, tuples, strict=True)]
    scores = [(q * x).sum() for x in product]
    highest = max(score.mid() for score in scores)
    weights = [(score - highest).exp() for score in scores]
    total = sum(weights, arb(0))
    weights = [w / total for w in weights]
    output = sum((w * v for w, v in zip(weights, value, strict=True)), 0 * V[0][0])
    pulls = [w * (g * (v - output)).sum() for w, v in zip(weights, value, strict=True)]
    dq = sum((pull * x for pull, x in zip(pulls, product, strict=True)), 0 * q) * arb(scale)
    dK, dV = [0 * k for k in K], [0 * v for v in V]
    for t, w, pull, without, without_value in zip(tuples, weights, pulls, other_keys, other_values, strict=True):
        for m, j in enumerate(t):
            dK[m][j] += pull * q * without[m]
            dV[m][j] += w * g * without_value[m]
    return dq, dK, dV


def _balls(x: Any) -> Any:
    """An array of balls."""
    array = np.empty(np.shape(x), dtype=object)
    array[...] = np.vectorize(arb, otypes=[object])(x)
    return array


def _without_each(factors: list[Any]) -> Iterator[Any]:
    """For each factor the product of all other factors."""
    ones = _balls(np.ones(len(factors[0])))
    for m in range(len(factors)):
        yield math.prod([*factors[:m], *factors[m + 1 :]], start=ones)


def _compare(tensors: Sequence[Tensor], exact: Sequence[Gradient]) -> tuple[Verification | None, bool]:
    """The verdict, or None if some ball is too wide to decide; and whether all balls are narrow relative to their error
    bounds.
    """
    worst = Verification(True, 0.0, (), "output", 0.0, 0.0, 0)
    decided = fine = True
    for x, gradient in zip(tensors, exact, strict=True):
        given = exact_floats(x)
        for at in np.ndindex(given.shape):
            allowed, number = gradient.allowed[at[:-1]], float(given[at])
            if not math.isfinite(number):
                fault = f"it is {number}"
                return Verification(False, math.inf, at, gradient.name, math.inf, math.inf, 1, fault), True
            error = abs(arb(number) - gradient.exact[at])
            if not allowed.is_finite():  # an infinite certificate always holds
                continue
            fine = fine and (error.is_exact() or error.rad() <= allowed * balls.power_of_two(-20))
            decided = decided and (error <= allowed or error > allowed)
            ratio = 0.0 if error.is_zero() else balls.float_above(error / allowed) if allowed > 0 else math.inf
            held = not error > allowed
            if (not held, ratio) > (not worst.held, worst.margin):
                bound = balls.float_above(allowed)
                worst = Verification(held, ratio, at, gradient.name, balls.float_above(error), bound, 1)
    return worst if decided or not worst.held else None, fine
