"""What each algorithm costs: the flops of its matrix products, its working memory, and a time to compare them by.

The constants ship with the source, so that the choice never depends on the machine. They are nanoseconds on one AVX-512
machine with two cores; only their ratios matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from separatrix.attention.polynomial.chunks import PIECE, causal_chunk, chunk_tokens, scan_chunk
from separatrix.attention.polynomial.expanded import Expanded
from separatrix.attention.polynomial.lanes import lanes
from separatrix.attention.polynomial.scan import scans_natively

EXACT_FLOP, EXACT_SCORE = 0.0035, 0.15
"""The time of a flop of exact attention in float32, and of all other work on a score; float64 takes twice as long."""
POLYNOMIAL_FLOP, POLYNOMIAL_FEATURE = 0.006, 0.25
"""The time of a flop and of a written monomial of the polynomial method, in float32; its products are thin."""
POLYNOMIAL_START = 1.5e6
"""The time that the polynomial method takes, beyond exact attention's, however short the sequence is."""
SAMPLED_ENTRY, BASIS_ENTRY = 2.0, 5.0
"""The time that planning takes for a coordinate of a sampled tuple, and for each of d^3 steps of a change of basis."""
TUPLES = 256
"""How many key tuples are sampled for each query when the error is forecast."""
CAUSAL_FEATURE, SCAN_FEATURE = 1.5, 0.06
"""The time of a monomial and value column of a causal token, by running sums in PyTorch and by the scan in C++."""
AFFORDABLE = 1e15
"""Flops of exact attention that `auto` will start by itself: about an hour."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a call: heads, query length, key lengths, d, d_v; whether it is causal."""

    heads: int
    query_length: int
    key_lengths: tuple[int, ...]
    d: int
    d_v: int
    is_causal: bool = False

    @property
    def order(self) -> int:
        return len(self.key_lengths) + 1

    @property
    def scores(self) -> float:
        """Entries of the attention tensor that are visited: causal attention of order k fills 1/k of it."""
        volume = float(self.heads) * self.query_length * math.prod(float(length) for length in self.key_lengths)
        return volume / self.order if self.is_causal else volume


@dataclass(frozen=True)
class Cost:
    """`flops` of matrix products, `bytes` held beside inputs and outputs, and `time` to compare by."""

    flops: float
    bytes: float
    time: float


def exact_cost(shape: Shape, wide: bool) -> Cost:
    flops = 2 * shape.scores * (shape.d + shape.d_v)
    time = (EXACT_FLOP * flops + EXACT_SCORE * shape.scores) * (2.2 if wide else 1.0)
    size = 8 if wide else 4
    return Cost(flops, 2.0**21 + size * 2 * 2**19, time)


def polynomial_cost(shape: Shape, expanded: Expanded, wide: bool) -> Cost:
    """The cost of the states of all key sets and of the queries against their product; token by token if causal."""
    rank, d = expanded.rank, shape.d
    size, width = 8 if wide else 4, shape.d_v + 1
    if shape.is_causal:
        products = len(shape.key_lengths) * float(shape.query_length)  # of states and query
        flops = 2.0 * shape.heads * rank * width * (sum(shape.key_lengths) + products)
        tokens = shape.heads * float(sum(shape.key_lengths) + shape.query_length)
        scanned = scans_natively(torch.device("cpu"), len(shape.key_lengths))
        feature = SCAN_FEATURE if scanned else CAUSAL_FEATURE
        held = _scan_bytes(shape, rank) if scanned else _causal_bytes(shape, rank)
        return Cost(flops, held, POLYNOMIAL_START + tokens * rank * width * feature)
    keys, queries = float(shape.heads * sum(shape.key_lengths)), float(shape.heads * shape.query_length)
    flops = 2 * (expanded.multiply_adds(d, width) * keys + expanded.multiply_adds(d, width + 1) * queries)
    written = expanded.written(d, width) * keys + expanded.written(d, width + 1) * queries
    time = POLYNOMIAL_START + (POLYNOMIAL_FLOP * flops + POLYNOMIAL_FEATURE * written) * (2.0 if wide else 1.0)
    return Cost(flops, _polynomial_bytes(shape, expanded, size), time)


def sampled_queries(heads: int) -> int:
    """The largest number of queries of each head in the sample for a forecast; the more heads, the fewer.

    >>> [sampled_queries(heads) for heads in (1, 32, 100, 4096)]
    [64, 64, 20, 8]
    """
    return max(8, min(64, 2048 // max(heads, 1) // 2 * 2))


def planning_time(shape: Shape) -> float:
    """The time that a sample takes: if exact attention takes less, planning is not worth it."""
    drawn = float(shape.heads * sampled_queries(shape.heads) * TUPLES)
    return max(POLYNOMIAL_START, SAMPLED_ENTRY * drawn * shape.d * shape.order)


def basis_time(shape: Shape) -> float:
    """The time that it takes to find a change of basis."""
    return BASIS_ENTRY * shape.heads * shape.d**3


def sampled_tuples(heads: int, d: int) -> int:
    """How many of a query's tuples are scored at once."""
    return max(1, min(TUPLES, PIECE // (max(heads, 1) * sampled_queries(heads) * max(d, 1))))


def _causal_bytes(shape: Shape, rank: int) -> float:
    """What causal attention holds: a chunk has up to seven running sums at a time, its own and those of products."""
    heads, width = max(shape.heads, 1), shape.d_v + 1
    one = 8.0 * heads * rank * width
    chunk = 7 * one * min(causal_chunk(heads, rank, width), max(shape.query_length, 1))
    sample = _sample_bytes(shape.heads, shape.d)
    return 2.0**18 + max(chunk, sample) + one * (2 * len(shape.key_lengths) + 2) + 48.0 * heads * shape.query_length


def _scan_bytes(shape: Shape, rank: int) -> float:
    """What the causal scan holds: coordinates, values and sums of a chunk, states, and those a thread works on."""
    heads, width, sets = max(shape.heads, 1), shape.d_v + 1, len(shape.key_lengths)
    tokens = heads * min(scan_chunk(heads, rank, width), max(shape.query_length, 1))
    chunk = 8.0 * tokens * ((sets + 3) * shape.d + (sets + 1) * (width + 1))
    states = 8.0 * heads * rank * width * (2 * sets + 1) + 32.0 * rank
    threads = min(torch.get_num_threads(), heads)
    working = 8.0 * threads * rank * (sets * width + 16 * (sets + 1))
    return (
        2.0**18 + max(chunk + states + working, _sample_bytes(shape.heads, shape.d)) + 48.0 * heads * shape.query_length
    )


def _sample_bytes(heads: int, d: int) -> float:
    """Indices, keys, coordinates and two products of what is scored at once, and all the scores a few times."""
    queries = float(max(heads, 1) * sampled_queries(heads))
    return queries * (sampled_tuples(heads, d) * (32 * d + 24) + 24 * TUPLES)


def _polynomial_bytes(shape: Shape, expanded: Expanded, size: int) -> float:
    """What is held at once beside inputs and outputs, at the most; measured it is a half to three quarters of this.

    The largest of what planning, a chunk of the certificate and a chunk of the computation take; besides, a few
    numbers for each query.
    """
    heads, d, width, rank = float(max(shape.heads, 1)), shape.d, shape.d_v + 1, expanded.rank
    longest = max(shape.query_length, *shape.key_lengths)
    tokens = min(chunk_tokens(max(shape.heads, 1), rank, size == 8), longest)
    laid = lanes(max(shape.heads, 1), tokens) * (expanded.pairs if expanded.is_factored(d, width + 1) else rank)
    states = 8 * heads * (rank * (width * len(shape.key_lengths) + 3 * (width + 1)) + 2 * laid * (width + 1))
    chunk = size * heads * tokens * (expanded.written(d, width + 1) + 4 * (width + 1) + 2 * d)
    column = 16 * heads * max(d, 1)
    certificate = 16 * max(min(PIECE, column * longest), column)
    sample = _sample_bytes(shape.heads, d)
    return 2.0**18 + max(states + chunk, sample, certificate) + 48 * heads * shape.query_length
