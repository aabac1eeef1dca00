"""The cost of each algorithm: the flops of its matrix products, its working memory, and a time for comparison.

Near-linear attention takes tokens in chunks, whose sizes are functions of shapes alone, so that results are
reproducible.

The constants ship with the source, so that the choice never depends on the machine, only on whether the kernels in C++
are installed. The constants are nanoseconds on machines with AVX-512 and two cores (the kernels on an AMD EPYC, plain
PyTorch on an Intel Xeon); only their ratios matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from separatrix.native import MOST_SETS, native

if TYPE_CHECKING:
    from separatrix.attention.near_linear.plan import Recipe


@dataclass(frozen=True)
class Rates:
    """The time in nanoseconds that a backend takes for one unit of each kind of work.

    Attributes:
        exact_flop: A flop of exact attention's products in float32; float64 takes twice as long.
        exact_score: The rest of the work on a score: exponential, maximum and sum.
        flop: A flop of the polynomial method's products with monomials in float32; float64 takes half as long again.
        monomial: A monomial of a token in float32, which the kernels compute in cache and plain PyTorch writes to
            memory.
        scanned: A monomial and value column of a token of a causal call.
        scanned_monomial: A monomial of a token of a causal call, for any number of columns.
    """

    exact_flop: float
    exact_score: float
    flop: float
    monomial: float
    scanned: float
    scanned_monomial: float


KERNELS = Rates(exact_flop=0.004, exact_score=0.15, flop=0.0055, monomial=0.045, scanned=0.06, scanned_monomial=0.45)
PYTORCH = Rates(exact_flop=0.0035, exact_score=0.15, flop=0.006, monomial=0.25, scanned=1.5, scanned_monomial=0.0)
START = 3e5
"""The overhead of the polynomial method compared with exact attention, for sequences of any length."""
PLANNING, CERTIFYING = 1.5e6, 7e5
"""The time of planning a call, in addition to the bounds on its entries, which exact attention needs too, and of
certifying it, for sequences of any length."""
WORTH_PLANNING = 2.0
"""A plan is made if exact attention takes this many times as long as planning: if the plan finds nothing cheaper, the
lost time is then at most half of exact attention's."""
TOKEN_ENTRY = 4.0
"""The time of reading an entry of query, keys and values for a plan and for a certificate."""
SQUARED_ENTRY, SQUARED_QUERY = 3.0, 80.0
"""The times of computing the deviation of one entry of the values (squaring it takes half as long), and of the
certificate of one query with squares. These numbers and `SEARCHING` are half of the times on two cores of an Intel Xeon
(Cascade Lake), because it takes about twice as long as the machines on which the other numbers were measured.
"""
SEARCHING = 1.5e6
"""The time that it takes to search for a polynomial with squared deviations."""
SAMPLED_ENTRY, BASIS_ENTRY = 4.0, 5.0
"""The time of planning for a coordinate of a sampled tuple, and for each of d^3 steps of a change of basis."""
ORDER_2_COORDINATE, CAUSAL_ORDER_2_COORDINATE = 3e5, 2.2e6
"""The additional planning time for each coordinate at order 2, where a basis is searched for. These numbers were not
measured separately: with them, calls with ``method="auto"`` take about as long as the better method. On an AMD EPYC
(Zen 5), this is true of causal calls from about 14,000 tokens on at d = 8, and from 23,000 at d = 16 and 32."""
THREADS, TILE = 2, 256
"""The number of threads assumed for costs and bytes, and the number of tokens whose monomials a kernel computes at a
time."""
AFFORDABLE = 1e15
"""The largest number of flops of exact attention that run unless you pass ``method="exact"``: about an hour."""


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
        """The number of visited entries of the attention tensor: causal attention of order k fills 1/k of it."""
        volume = float(self.heads) * self.query_length * math.prod(float(length) for length in self.key_lengths)
        return volume / self.order if self.is_causal else volume


LARGEST_RANK, LARGEST_DEGREE = 1 << 17, 120
"""The largest rank and degree of a polynomial that are tried."""


@dataclass(frozen=True)
class Cost:
    """`flops` of matrix products, `bytes` in addition to inputs and outputs, and `time` for comparison."""

    flops: float
    bytes: float
    time: float


def exact_cost(shape: Shape, wide: bool) -> Cost:
    rates = _rates()
    flops = 2 * shape.scores * (shape.d + shape.d_v)
    time = (rates.exact_flop * flops + rates.exact_score * shape.scores) * (2.2 if wide else 1.0)
    size = 8 if wide else 4
    return Cost(flops, 2.0**21 + size * 2 * 2**19, time)


def polynomial_cost(shape: Shape, rank: int, wide: bool) -> Cost:
    """The cost of the states of all key sets and of the queries against their product; token by token if causal."""
    size, width = 8 if wide else 4, shape.d_v + 1
    keys, queries = float(shape.heads * sum(shape.key_lengths)), float(shape.heads * shape.query_length)
    if shape.is_causal:
        flops = 2.0 * rank * width * (keys + len(shape.key_lengths) * queries)  # the states, and the products of states
        scanned = len(shape.key_lengths) <= MOST_SETS and native().library is not None
        rates = KERNELS if scanned else PYTORCH
        held = _scan_bytes(shape, rank) if scanned else _causal_bytes(shape, rank)
        time = START + (keys + queries) * rank * (width * rates.scanned + rates.scanned_monomial)
        return Cost(flops, held, time)
    rates = _rates()
    flops = 2 * rank * (width * keys + (width + 1) * queries)
    time = START + (rates.flop * flops + rates.monomial * rank * (keys + queries)) * (1.5 if wide else 1.0)
    return Cost(flops, _polynomial_bytes(shape, rank, size), time)


def sampled_queries(heads: int) -> int:
    """The largest number of queries of each head in the sample for a forecast, which decreases with the number of
    heads.

    >>> [sampled_queries(heads) for heads in (1, 32, 100, 4096)]
    [64, 64, 20, 8]
    """
    return max(8, min(64, 2048 // max(heads, 1) // 2 * 2))


def sampled_tuples(heads: int) -> int:
    """The number of sampled key tuples of each head, larger for fewer heads, so that the forecast has a smaller error.

    >>> [sampled_tuples(heads) for heads in (1, 4, 100)]
    [1024, 512, 256]
    """
    return max(256, min(1024, (1 << 17) // (max(heads, 1) * sampled_queries(heads))))


def certified_cost(shape: Shape, rank: int, wide: bool) -> Cost:
    """`polynomial_cost` plus the time of the certificate, without the time of planning."""
    cost = polynomial_cost(shape, rank, wide)
    return Cost(cost.flops, cost.bytes, cost.time + CERTIFYING + 0.5 * _looking(shape))


def affordable_rank(shape: Shape, limit: float) -> float:
    """The largest rank that is tried: at most `LARGEST_RANK`, and in float32 within a limit on the time."""
    if limit == math.inf:
        return LARGEST_RANK
    least, more = (certified_cost(shape, rank, False).time for rank in (1, 2))
    return min(LARGEST_RANK, 1 + (limit - least) / (more - least))  # times are linear in the rank


def recipe_cost(shape: Shape, recipe: Recipe) -> Cost:
    """The cost of a recipe, including the sums of its certificate."""
    wide, polynomial, index_set = recipe.dtype.itemsize == 8, recipe.polynomial, recipe.index_set
    cost = certified_cost(shape, index_set.rank, wide)
    if polynomial is None or polynomial.relative is not None:
        return cost
    beyond, d = polynomial.moment > index_set.degree, index_set.dimension
    monomials = math.comb(d + polynomial.moment - 1, polynomial.moment) if d else 1
    extra = _moment_cost(shape, monomials, recipe.squares, beyond, wide)
    # Columns of squares are columns of the states, like those of the values and of ones.
    held = polynomial_cost(shape, index_set.rank + beyond * monomials, wide).bytes
    held *= 1 + recipe.squares / (shape.d_v + 1)
    return Cost(cost.flops + extra.flops, held + extra.bytes, cost.time + extra.time)


def _moment_cost(shape: Shape, monomials: int, columns: int, beyond: bool, wide: bool) -> Cost:
    """The additional cost of columns of squared deviations, and of a moment of this many monomials.

    If the moment is `beyond` the degree, its monomials and their column of ones are computed for the moment alone.
    Plain PyTorch multiplies these monomials with all columns.
    """
    width, scanned = shape.d_v + 1, native().library is not None
    keys, queries = float(shape.heads * sum(shape.key_lengths)), float(shape.heads * shape.query_length)
    of_keys = columns + beyond if scanned else columns + beyond * width
    of_queries = columns + beyond if scanned else columns + beyond * (width + 1)
    flops = 2.0 * monomials * (of_keys * keys + of_queries * queries)
    made = beyond * monomials * (keys + queries)
    if shape.is_causal:
        rates = KERNELS if scanned else PYTORCH
        time = monomials * of_keys * (keys + queries) * rates.scanned + made * rates.scanned_monomial
    else:
        time = (_rates().flop * flops + _rates().monomial * made) * (1.5 if wide else 1.0)
    squares = _squares_time(shape, columns) if columns else 0.0
    held = 8.0 * keys * columns
    return Cost(flops, held, time + squares)


def _squares_time(shape: Shape, columns: int) -> float:
    """The time of squaring deviations of the values, and of a certificate with their sums."""
    keys, queries = float(shape.heads * sum(shape.key_lengths)), float(shape.heads * shape.query_length)
    return SQUARED_ENTRY * keys * (shape.d_v + 2 * columns) + SQUARED_QUERY * queries


def squares_may_pay(shape: Shape, limit: float) -> bool:
    """Whether a polynomial of rank 1 with squared deviations, and the search for it, take less time than the limit."""
    return certified_cost(shape, 1, False).time + _squares_time(shape, 1) + SEARCHING < limit


def planning_time(shape: Shape) -> float:
    """The time of planning: a plan is made only if exact attention takes `WORTH_PLANNING` times as long."""
    drawn = float(shape.heads * sampled_tuples(shape.heads)) * (shape.d * shape.order + sampled_queries(shape.heads))
    coordinate = 0.0
    if shape.order == 2:
        coordinate = CAUSAL_ORDER_2_COORDINATE if shape.is_causal else ORDER_2_COORDINATE
    return PLANNING + 0.5 * _looking(shape) + SAMPLED_ENTRY * drawn + coordinate * shape.d


def _looking(shape: Shape) -> float:
    """The time of reading all entries of query, keys and values."""
    tokens = sum(shape.key_lengths) * float(shape.d + shape.d_v) + shape.query_length * float(shape.d)
    return TOKEN_ENTRY * shape.heads * tokens


def _rates() -> Rates:
    return PYTORCH if native().library is None else KERNELS


def basis_time(shape: Shape) -> float:
    """The time of finding a change of basis."""
    return BASIS_ENTRY * shape.heads * shape.d**3


def _causal_bytes(shape: Shape, rank: int) -> float:
    """The memory of causal attention: the monomials of a chunk, and up to seven running sums or products of these."""
    heads, width = max(shape.heads, 1), shape.d_v + 1
    state = 8.0 * heads * rank * width
    chunk = (7 * state + 32.0 * heads * rank) * min(causal_chunk(heads, rank, width), max(shape.query_length, 1))
    states = state * (2 * len(shape.key_lengths) + 2)
    return 2.0**18 + max(chunk, _sample_bytes(shape)) + states + 48.0 * heads * shape.query_length


def _scan_bytes(shape: Shape, rank: int) -> float:
    """The memory of the causal scan: coordinates, values and sums of a chunk, states, and the working memory of
    `THREADS` threads.

    A plan does not depend on the number of threads, so the number is a constant.
    """
    heads, width, sets = max(shape.heads, 1), shape.d_v + 1, len(shape.key_lengths)
    tokens = heads * min(scan_chunk(heads, rank, width, False), max(shape.query_length, 1))
    chunk = 8.0 * tokens * ((sets + 3) * shape.d + (sets + 1) * (width + 1))
    states = 8.0 * heads * rank * width * (2 * sets + 1) + 32.0 * rank
    working = 8.0 * min(THREADS, heads) * rank * (sets * width + 16 * (sets + 1))
    return 2.0**18 + max(chunk + states + working, _sample_bytes(shape)) + 48.0 * heads * shape.query_length


def _sample_bytes(shape: Shape) -> float:
    """The memory of the samples of a plan: indices, keys, values and products of tuples, and several copies of their
    scores.

    A causal call has a second sample, of its first queries.
    """
    heads = max(shape.heads, 1)
    tuples = float(heads * sampled_tuples(heads)) * (2 if shape.is_causal else 1)
    return tuples * (32 * shape.d + 8 * (shape.order + 3) * shape.d_v + 24 + 48 * sampled_queries(heads))


def _polynomial_bytes(shape: Shape, rank: int, size: int) -> float:
    """An upper bound on the memory in addition to inputs and outputs; measurements are half to three quarters of it.

    The bound is the maximum over planning, a chunk of the certificate and a chunk of the computation, plus a few
    numbers for each query.
    """
    heads, d, width = float(max(shape.heads, 1)), shape.d, shape.d_v + 1
    longest = max(shape.query_length, *shape.key_lengths)
    tokens = min(chunk_tokens(max(shape.heads, 1), rank, size == 8), longest)
    monomials = THREADS * TILE * rank if native().library is not None else 2 * heads * tokens * rank
    states = 8 * heads * rank * (width * len(shape.key_lengths) + 5 * (width + 1))
    chunk = size * (monomials + heads * tokens * (4 * (width + 1) + 2 * d))
    column = 16 * heads * max(d, 1)
    certificate = 16 * max(min(PIECE, column * longest), column)
    sample = _sample_bytes(shape)
    return 2.0**18 + max(states + chunk, sample, certificate) + 48 * heads * shape.query_length


CHUNK_BYTES, CHUNK_TOKENS = 3 << 24, 12288
"""How many bytes the monomials of a chunk may take, and the largest number of its tokens."""
PIECE = 1 << 20
"""The number of entries that the certificate processes at once: they stay in cache for forty passes, and occupy all
threads."""
FORWARD_TOKENS = 512
"""The smallest number of tokens in a chunk of a causal scan without gradients."""
CAUSAL_BYTES = 1 << 22
"""The number of bytes that the running sums of a causal chunk may take."""


def chunk_tokens(heads: int, rank: int, wide: bool) -> int:
    """The number of tokens in a chunk, which is limited because each token in a chunk's sum adds a rounding.

    The monomials of a chunk stay in the last-level cache, and a product is long enough for two threads.
    """
    fit = CHUNK_BYTES // (max(heads, 1) * rank * (8 if wide else 4))
    return min(CHUNK_TOKENS if wide else 2048, max(64, fit // 64 * 64))


def causal_chunk(heads: int, rank: int, width: int) -> int:
    """The number of tokens in a causal chunk, whose running sums take about `CAUSAL_BYTES`."""
    return max(8, CAUSAL_BYTES // max(8 * heads * rank * width, 1))


def scan_chunk(heads: int, rank: int, width: int, is_backward: bool) -> int:
    """The number of tokens in a chunk of the causal scan: their values, and a head's stored states, take at most
    `CAUSAL_BYTES` each.

    In a backward pass the kernels store a state for every 16 tokens (csrc/scan.hpp) of each head that a thread is
    processing. A forward pass stores none, and its chunks have at least `FORWARD_TOKENS`: it reads and writes the
    states of a chunk once, which for a large rank takes longer than 16 tokens do.
    """
    tokens = 16 * (CAUSAL_BYTES // max(8 * rank * width, 1))
    if not is_backward:
        tokens = max(tokens, FORWARD_TOKENS)
    return max(16, min(tokens, CAUSAL_BYTES // max(8 * heads * width, 1)))
