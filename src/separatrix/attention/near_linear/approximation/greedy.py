r"""Index sets shaped by the amplitudes b_l, and the error of leaving out the other multi-indices.

x_l = |scale q_l k_1,l ...| <= b_l. For alpha outside the set, by the inequality of the means and x_l <= b_l,

    x^alpha <= b^alpha sum_l (alpha_l / |alpha|) (x_l / b_l)^e        for even e <= |alpha|,

and summed over tuples, sum_t (x_l / b_l)^e is a product of power sums, one for each factor.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from separatrix.attention.bounds import SLACK, pieces
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.monomials import Array

POWERS = (0, 2, 4, 6)
"""The exponents e that are summed."""


def greedy_alphas(amplitudes: Sequence[float], rank: int) -> Array:
    """The `rank` multi-indices (rank, d) with the largest b^alpha / alpha!, modified to decrease along every
    coordinate.

    b^a / a! grows in a up to a = floor(b). Replacing it by its largest value from a on makes it decrease along every
    coordinate, so that the set is closed downward for all amplitudes. Weights are sums of logarithms over the
    coordinates. Rounded sums are monotone too; among equal weights the lower degree comes first.

    Coordinates are processed in the order of decreasing amplitudes. An alpha with power p at its last coordinate c has
    up to three children: power p + 1 at c; the additional power 1 at c + 1; and, if p = 1, the power 1 moved from c to
    c + 1. No child weighs more than its parent, and every alpha has one parent.

    >>> greedy_alphas([0.01, 0.5], 4).tolist()
    [[0, 0], [0, 1], [0, 2], [0, 3]]
    """
    b = np.asarray(amplitudes, dtype=np.float64)
    order = np.argsort(-b, kind="stable")
    order = order[b[order] > 0]
    falls: list[list[float]] = [[0.0] for _ in order]

    def fall(c: int, power: int) -> float:
        """The logarithm of the weight of power 0 at coordinate c, minus that of power `power`."""
        known = falls[c]
        while len(known) <= power:
            known.append(known[-1] + min(0.0, math.log(b[order[c]] / len(known))))
        return known[power]

    chosen: list[tuple[tuple[int, int], ...]] = [()]
    Node = tuple[float, int, tuple[tuple[int, int], ...], float, tuple[tuple[int, int], ...], int, int]

    def node(before: float, rest: tuple[tuple[int, int], ...], c: int, power: int, degree: int) -> Node:
        return -(before + fall(c, power)), degree, (*rest, (c, power)), before, rest, c, power

    heap = [node(0.0, (), 0, 1, 1)] if len(order) else []
    while heap and len(chosen) < rank:
        weight, degree, alpha, before, rest, c, power = heapq.heappop(heap)
        chosen.append(alpha)
        heapq.heappush(heap, node(before, rest, c, power + 1, degree + 1))
        if c + 1 < len(order):
            heapq.heappush(heap, node(-weight, alpha, c + 1, 1, degree + 1))
            if power == 1:
                heapq.heappush(heap, node(before, rest, c + 1, 1, degree))
    alphas = np.zeros((len(chosen), len(b)), dtype=np.int64)
    rows = np.repeat(np.arange(len(chosen)), [len(alpha) for alpha in chosen])
    pairs = np.array(list(itertools.chain.from_iterable(chosen)), dtype=np.int64).reshape(-1, 2)
    alphas[rows, order[pairs[:, 0]]] = pairs[:, 1]
    return alphas


def greedy_tail(alphas: Array, amplitudes: Sequence[float]) -> dict[int, npt.NDArray[np.float64]]:
    """W_e (d,) for each e: sum over alpha outside the set, with e the largest of `POWERS` <= |alpha|, of
    (alpha_l / |alpha|) b^alpha / alpha!.

    Over *all* alpha of degree p that sum is b_l R^(p-1) / p!; the sum over the set is subtracted, and a bound on the
    rounding error of the subtraction is added.
    """
    b = np.asarray(amplitudes, dtype=np.float64)
    R, degrees = float(b.sum()), alphas.sum(1)
    degree = int(degrees.max())
    tail = {e: np.zeros(len(b)) for e in POWERS}
    factorials = np.array([float(math.factorial(p)) for p in range(degree + 1)])
    weights = np.prod(np.where(alphas > 0, b, 1.0) ** alphas / factorials[alphas], axis=1)
    inside = np.zeros((degree + 1, len(b)))
    np.add.at(inside, degrees, alphas * (weights / np.maximum(degrees, 1))[:, None])
    p, level = 1, 1.0
    while p <= degree or p < 2 * R or level > 1e-30:
        level = 1.0 if p == 1 else level * R / p
        share = b * level
        if p <= degree:
            share = np.maximum(share - inside[p], 0.0) + 2.0**-35 * share  # at most 2^17 multi-indices were summed
        tail[max(e for e in POWERS if e <= p)] += share
        p += 1
    tail[max(POWERS)] += 2 * b * level * (1 + R)
    return tail


def key_powers(call: Call, frame: Frame) -> dict[int, Tensor]:
    """For each e: sum over tuples of keys of prod_m (|k_m,l| / its largest)^e, (H, d')."""
    sums = {e: torch.ones_like(frame.largest[0]) for e in POWERS}
    for m, key in enumerate(call.keys):
        part = {e: torch.zeros_like(frame.largest[0]) for e in POWERS}
        for start, stop in pieces(key.shape[1], 1 << 14):
            mask = call.masks[m][:, start:stop] if call.masks else None
            x = _relative(frame, key[:, start:stop], m + 1, mask)
            for e, power in _even_powers(x):
                power = power if mask is None else power.masked_fill(~mask.unsqueeze(1), 0.0)
                part[e] += power.sum(-1)
        sums = {e: sums[e] * part[e] for e in POWERS}
    return sums


def greedy_error(
    query: Tensor, frame: Frame, alphas: Array, amplitudes: Sequence[float], powers: Mapping[int, Tensor]
) -> Tensor:
    """The error E (H, L_q); `amplitudes` are the maxima over the heads, and `powers` the result of `key_powers`."""
    tail = greedy_tail(alphas, amplitudes)
    weights = {e: torch.from_numpy(tail[e]).to(powers[e]) * powers[e] for e in POWERS}
    E = torch.zeros(query.shape[:2], dtype=torch.float64, device=query.device)
    for start, stop in pieces(query.shape[1], 1 << 14):
        for e, power in _even_powers(_relative(frame, query[:, start:stop], 0, None)):
            E[:, start:stop] += (power * weights[e].unsqueeze(-1)).sum(1)
    return E * SLACK * (1 + 64 * torch.finfo(frame.dtype).eps)


def _relative(frame: Frame, x: Tensor, m: int, mask: Tensor | None) -> Tensor:
    """Coordinates (H, d', c) divided by their largest magnitudes; 0 where a coordinate is 0 throughout."""
    largest = frame.largest[m].masked_fill(frame.largest[m] == 0, 1.0)
    return frame.coordinates(x, m, mask).to(torch.float64) / largest.unsqueeze(-1)


def _even_powers(x: Tensor) -> list[tuple[int, Tensor]]:
    square, power = x * x, torch.ones_like(x)
    powers = []
    for e in POWERS:
        powers.append((e, power))
        power = power * square
    return powers
